//! The closed lists of codes that a safety check and its record use. Where one of these is expected, no free text
//! about a person's words can be written.

/// Defines an enum whose variants are stored, exported and read back by name.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name {
            $($(#[$variant_doc])* #[serde(rename = $word)] $variant),+
        }

        impl $name {
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word),+
                }
            }

            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }
    };
}
pub(crate) use codes;

codes!(
    /// Why a level was given.
    ReasonCode {
        NoSignal = "no_signal",
        Configured = "configured",
        Distress = "distress",
        Hopelessness = "hopelessness",
        ThirdParty = "third_party",
        SelfHarm = "self_harm",
        PassiveIdeation = "passive_ideation",
        ActiveIdeation = "active_ideation",
        PlanOrMeans = "plan_or_means",
        Overdose = "overdose",
        HarmToOthers = "harm_to_others",
        /// A model gave a level and no reason from this list.
        Unspecified = "unspecified",
    }
);
codes!(
    /// What else was noticed.
    CrisisFlag {
        Negated = "negated",
        Idiom = "idiom",
        ThirdPerson = "third_person",
        Past = "past",
        Imminent = "imminent",
        SeveralSignals = "several_signals",
        /// A configured phrase says that these words mean nothing here.
        Allowed = "allowed",
        /// The model saw nothing where the lexicon was sure.
        Disputed = "disputed",
    }
);
codes!(OverrideKind {
    SafeWord = "safe_word",
    Phrase = "phrase",
});
codes!(
    /// What decided the level.
    ClassifierPath {
        Override = "override",
        Model = "model",
        Lexicon = "lexicon",
        /// A model is configured and did not answer, or not in its form.
        LexiconAfterFailure = "lexicon_after_failure",
    }
);
codes!(CrisisEventType {
    CrisisResponse = "crisis_response",
    VoiceMissedCrisis = "voice_missed_crisis",
});
codes!(ResponseStyle {
    Crisis = "crisis",
    CheckIn = "check_in",
});
codes!(
    /// Who wrote the answer that was given.
    ResponsePath {
        Template = "template",
        Model = "model",
        Voice = "voice",
    }
);
codes!(
    /// Why the template answered where a model should have.
    FallbackCode {
        NoModel = "no_model",
        ModelFailed = "model_failed",
        ModelTimedOut = "model_timed_out",
        ReplyEmpty = "reply_empty",
        ReplyRefused = "reply_refused",
    }
);
codes!(
    /// How the help resources were found.
    ResourceLookupStatus {
        NotAttempted = "not_attempted",
        Found = "found",
        RegionUnknown = "region_unknown",
        RegionUnlisted = "region_unlisted",
        Configured = "configured",
        Failed = "failed",
    }
);
codes!(
    /// Why a record is held beyond its time.
    HoldReason {
        LegalHold = "legal_hold",
        IncidentReview = "incident_review",
        Complaint = "complaint",
        Audit = "audit",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_read_back_and_travels_as_its_word() {
        for code in ReasonCode::ALL {
            assert_eq!(ReasonCode::parse(code.as_str()), Some(*code));
            assert_eq!(serde_json::to_string(code).unwrap(), format!("{:?}", code.as_str()));
        }
        assert_eq!(ReasonCode::parse("the user said something sad"), None);
        assert_eq!(ResourceLookupStatus::ALL.len(), 6);
    }
}
