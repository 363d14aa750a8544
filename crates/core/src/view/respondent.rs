//! Who answers a view, and how they prove on the next request that it is still them: a signed cookie per view. Pure.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde::{Deserialize, Serialize};

use super::{View, ViewAudience, hex, mac};
use crate::access::{Actor, Role, ShareAccess};
use crate::definitions::StoredDefinition;
use crate::error::{Error, Result};
use crate::ids::{TenantId, check_text};
use crate::limits;
use crate::time::Timestamp;

/// A person or program that answers a view, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Respondent {
    pub kind: RespondentKind,
    pub id: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RespondentKind {
    User,
    /// A key or a machine that names no user.
    Credential,
    /// The entity of a person who gave a name and an address.
    Lead,
    /// A person of whom only the cookie is known.
    Cookie,
}

impl RespondentKind {
    const ALL: [Self; 4] = [Self::User, Self::Credential, Self::Lead, Self::Cookie];

    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == text)
    }

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Credential => "credential",
            Self::Lead => "lead",
            Self::Cookie => "cookie",
        }
    }
}

impl Respondent {
    pub fn lead(entity: &str) -> Self {
        Self { kind: RespondentKind::Lead, id: entity.to_owned() }
    }

    pub fn cookie(id: String) -> Self {
        Self { kind: RespondentKind::Cookie, id }
    }

    /// A caller who is known by a credential.
    pub(crate) fn of(actor: &Actor) -> Self {
        match &actor.user {
            Some(user) => Self { kind: RespondentKind::User, id: user.to_string() },
            None => Self { kind: RespondentKind::Credential, id: actor.credential.to_string() },
        }
    }

    /// The author of the answer in the log.
    pub fn author(&self) -> String {
        match self.kind {
            RespondentKind::User => self.id.clone(),
            kind => format!("{}:{}", kind.as_str(), self.id),
        }
    }

    /// The external id of this respondent's answer in the session's log. It cannot be guessed.
    pub fn answer_name(&self, key: &[u8; 32], tenant: &TenantId, view_id: &str) -> String {
        let sum = mac(key, "answer", &[tenant.as_str(), view_id, self.kind.as_str(), &self.id]);
        format!("view:{}", hex(&sum[..16]))
    }
}

/// The result of the check at a view's gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    As(Respondent),
    /// An unknown person: they need a cookie to be recognised again.
    Anyone,
    /// They must give a name and an address first.
    AsLead,
}

/// Lets a caller through the gate of a view, or refuses. `cleared` is the respondent that their cookie proves. A
/// caller who may not see the view is answered as if it did not exist.
pub fn admit(view: &StoredDefinition<View>, actor: &Actor, cleared: Option<Respondent>) -> Result<Admission> {
    match actor.role {
        // An unpublished view is only for those who edit it.
        Role::Member if !view.value.takes_answers() => Err(Error::NotFound),
        Role::Owner | Role::Member => Ok(Admission::As(Respondent::of(actor))),
        // A personal link: it proves which member answers.
        Role::Share if opens(actor, view) && actor.user.is_some() => Ok(Admission::As(Respondent::of(actor))),
        Role::Share if opens(actor, view) => match view.value.publish_config.gate {
            ViewAudience::Member => {
                Err(Error::denied("members answer this: use your key, or ask an owner for a personal link"))
            }
            ViewAudience::None => Ok(match cleared.filter(|who| who.kind == RespondentKind::Cookie) {
                Some(known) => Admission::As(known),
                None => Admission::Anyone,
            }),
            ViewAudience::Lead => Ok(match cleared.filter(|who| who.kind == RespondentKind::Lead) {
                Some(known) => Admission::As(known),
                None => Admission::AsLead,
            }),
        },
        Role::Share | Role::Guest | Role::Worker | Role::Channel => Err(Error::NotFound),
    }
}

/// Whether a link opens a view: one that was made for it, or one for submitting to its session.
fn opens(actor: &Actor, view: &StoredDefinition<View>) -> bool {
    match (&actor.view, &actor.shared) {
        (Some(opened), _) => *opened == view.id,
        (None, Some((session, access))) => {
            *access == ShareAccess::Submit && view.value.session_id.as_deref() == Some(session.as_str())
        }
        (None, None) => false,
    }
}

/// What a respondent says of themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lead {
    pub name: String,
    /// As it is compared: without blanks around it, in small letters.
    pub email: String,
}

impl Lead {
    pub fn new(name: &str, email: &str) -> Result<Self> {
        let (name, email) = (name.trim(), email.trim().to_lowercase());
        if name.is_empty() || name.chars().any(char::is_control) {
            return Err(Error::invalid("lead.name", "must be a name"));
        }
        check_text("lead.name", name, limits::NAME_CHARS_MAX)?;
        let fits = email.len() <= limits::EMAIL_BYTES_MAX
            && !email.chars().any(|c| c.is_whitespace() || c.is_control())
            && email.split_once('@').is_some_and(|(user, host)| {
                !user.is_empty()
                    && !host.contains('@')
                    && !host.starts_with('.')
                    && !host.ends_with('.')
                    && host.contains('.')
            });
        if !fits {
            return Err(Error::invalid("lead.email", "must be an e-mail address"));
        }
        Ok(Self { name: name.to_owned(), email })
    }

    /// The id of the lead's entity, derived from the address, so that two concurrent requests make one entity.
    pub fn entity_id(&self, key: &[u8; 32], tenant: &TenantId) -> String {
        let sum = mac(key, "lead", &[tenant.as_str(), &self.email]);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&sum[..16]);
        uuid::Builder::from_custom_bytes(bytes).into_uuid().to_string()
    }
}

/// The prefix of all respondents' cookies.
pub const COOKIE_PREFIX: &str = "sederunt_view_";

/// The name of the cookie by which a respondent of a view is recognised.
pub fn cookie_name(view_id: &str) -> String {
    use sha2::Digest;
    format!("{COOKIE_PREFIX}{}", hex(&sha2::Sha256::digest(view_id.as_bytes())[..8]))
}

/// What a cookie says of its holder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CookieClaims {
    pub who: Respondent,
    /// It was set with an answer. A lead that only gave an address may be another person, and is not told whether
    /// that person has answered.
    pub has_answered: bool,
}

/// Marks a cookie that was set with an answer.
const ANSWERED: &str = "+";

/// A cookie that proves a respondent to this view and to no other, until this time.
pub fn seal(
    key: &[u8; 32],
    tenant: &TenantId,
    view_id: &str,
    cleared: &CookieClaims,
    until: Timestamp,
) -> String {
    let until = (until.as_micros() / 1_000_000).to_string();
    let CookieClaims { who, has_answered } = cleared;
    let kind = format!("{}{}", who.kind.as_str(), if *has_answered { ANSWERED } else { "" });
    let sum = mac(key, "clearance", &[tenant.as_str(), view_id, &kind, &who.id, &until]);
    format!("{kind}.{}.{until}.{}", BASE64.encode(&who.id), hex(&sum))
}

/// The respondent that a cookie proves; `None` for one that is not ours, not this view's, or expired.
pub fn unseal(
    key: &[u8; 32],
    tenant: &TenantId,
    view_id: &str,
    cookie: &str,
    now: Timestamp,
) -> Option<CookieClaims> {
    let mut parts = cookie.split('.');
    let (kind, id, until) = (parts.next()?, parts.next()?, parts.next()?);
    parts.next()?;
    let (kind, has_answered) = match kind.strip_suffix(ANSWERED) {
        Some(kind) => (kind, true),
        None => (kind, false),
    };
    let kind = RespondentKind::parse(kind)?;
    let id = String::from_utf8(BASE64.decode(id).ok()?).ok()?;
    let seconds: i64 = until.parse().ok()?;
    let until = Timestamp::from_micros(seconds.checked_mul(1_000_000)?);
    let cleared = CookieClaims { who: Respondent { kind, id }, has_answered };
    let ours = seal(key, tenant, view_id, &cleared, until);
    // Compares in constant time: all bytes, however early they differ.
    let differs = ours
        .bytes()
        .zip(cookie.bytes())
        .fold(ours.len() ^ cookie.len(), |sum, (a, b)| sum | usize::from(a ^ b));
    (differs == 0 && until > now).then_some(cleared)
}

/// The token of the link that publishing makes. It is derived from the installation's key, so it is stored nowhere
/// and can be shown again.
pub fn link_token(key: &[u8; 32], tenant: &TenantId, view_id: &str) -> String {
    BASE64.encode(mac(key, "view link", &[tenant.as_str(), view_id]))
}

/// The link: the address of a view with its token.
pub fn link(address: &str, token: &str) -> String {
    format!("{address}{SHARE_QUERY}{token}")
}

/// A text without the token of a link, as it is stored when a worker has put the link into it.
pub fn without_token(text: &str, token: &str) -> String {
    text.replace(&format!("{SHARE_QUERY}{token}"), "").replace(token, "")
}

/// Separates the address from the token.
const SHARE_QUERY: &str = "?share=";

/// The id of that link.
pub fn link_id(key: &[u8; 32], tenant: &TenantId, view_id: &str) -> String {
    format!("view-{}", hex(&mac(key, "view link id", &[tenant.as_str(), view_id])[..16]))
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;
    use crate::ids::{SessionId, UserId};
    use crate::session::SourceKind;

    const KEY: [u8; 32] = [7; 32];
    const NOW: Timestamp = Timestamp::from_micros(5_000_000);

    fn defined(gate: ViewAudience) -> StoredDefinition<View> {
        let mut value = view(r#"[{"key":"a","label":"A"}]"#);
        value.session_id = Some("s".into());
        value.publish_config.gate = gate;
        StoredDefinition {
            id: "v".into(),
            value,
            version: 1,
            created_by: None,
            created_at: NOW,
            updated_at: NOW,
        }
    }

    fn link(view: Option<&str>, session: &str, access: ShareAccess) -> Actor {
        Actor {
            role: Role::Share,
            shared: Some((SessionId::stored(session), access)),
            view: view.map(Into::into),
            ..Actor::local(SourceKind::Web)
        }
    }

    /// A link to a view alone.
    fn alone(view: &str) -> Actor {
        Actor { shared: None, ..link(Some(view), "", ShareAccess::Submit) }
    }

    fn person(role: Role, user: Option<&str>) -> Actor {
        Actor { role, user: user.map(UserId::stored), ..Actor::local(SourceKind::Api) }
    }

    #[test]
    fn every_gate_lets_through_whom_it_should() {
        use Admission::{Anyone, As, AsLead};
        use RespondentKind::{Cookie, Credential, User};
        let who = |kind, id: &str| Respondent { kind, id: id.to_owned() };
        let mine = || link(Some("v"), "s", ShareAccess::Submit);
        let table = [
            (ViewAudience::Member, person(Role::Member, Some("ada")), None, Ok(As(who(User, "ada")))),
            (ViewAudience::Lead, person(Role::Owner, None), None, Ok(As(who(Credential, "local")))),
            (ViewAudience::Member, mine(), None, Err("denied")),
            (ViewAudience::Member, mine(), Some(who(User, "ada")), Err("denied")),
            (ViewAudience::None, mine(), None, Ok(Anyone)),
            (ViewAudience::None, mine(), Some(who(Cookie, "c")), Ok(As(who(Cookie, "c")))),
            // A cookie is accepted only at the kind of gate that it was set for.
            (ViewAudience::None, mine(), Some(who(User, "ada")), Ok(Anyone)),
            (ViewAudience::Lead, mine(), Some(who(Cookie, "c")), Ok(AsLead)),
            (ViewAudience::Lead, mine(), Some(Respondent::lead("e")), Ok(As(Respondent::lead("e")))),
            (ViewAudience::None, link(None, "s", ShareAccess::Submit), None, Ok(Anyone)),
            (ViewAudience::None, link(None, "s", ShareAccess::Read), None, Err("not_found")),
            (ViewAudience::None, link(None, "other", ShareAccess::Submit), None, Err("not_found")),
            (ViewAudience::None, link(Some("w"), "s", ShareAccess::Submit), None, Err("not_found")),
            (ViewAudience::None, alone("v"), None, Ok(Anyone)),
            (ViewAudience::None, alone("v"), Some(who(Cookie, "c")), Ok(As(who(Cookie, "c")))),
            (ViewAudience::Lead, alone("v"), None, Ok(AsLead)),
            (ViewAudience::Member, alone("v"), None, Err("denied")),
            (ViewAudience::None, alone("w"), None, Err("not_found")),
            (ViewAudience::None, person(Role::Guest, Some("g")), None, Err("not_found")),
            (ViewAudience::None, person(Role::Worker, None), None, Err("not_found")),
            (ViewAudience::None, person(Role::Channel, None), None, Err("not_found")),
        ];
        for (gate, actor, cleared, expected) in table {
            let admitted = admit(&defined(gate), &actor, cleared.clone()).map_err(|error| error.code());
            assert_eq!(admitted, expected, "{gate:?} {actor:?} {cleared:?}");
        }
    }

    #[test]
    fn a_cookie_proves_one_respondent_to_one_view_for_a_while() {
        let (tenant, other) = (TenantId::stored("t"), TenantId::stored("u"));
        let who = CookieClaims { who: Respondent::lead("a.b/é"), has_answered: false };
        let until = NOW.plus(std::time::Duration::from_secs(1));
        let answered = CookieClaims { has_answered: true, ..who.clone() };
        let given = seal(&KEY, &tenant, "v", &answered, until);
        assert_eq!(unseal(&KEY, &tenant, "v", &given, NOW), Some(answered));
        let cookie = seal(&KEY, &tenant, "v", &who, until);
        assert!(cookie.bytes().all(|byte| byte.is_ascii_graphic() && !b";,\"\\".contains(&byte)), "{cookie}");
        assert_eq!(unseal(&KEY, &tenant, "v", &cookie, NOW), Some(who.clone()));
        assert_eq!(unseal(&KEY, &tenant, "v", &cookie, until), None, "it is too old");
        assert_eq!(unseal(&KEY, &tenant, "w", &cookie, NOW), None);
        assert_eq!(unseal(&KEY, &other, "v", &cookie, NOW), None);
        assert_eq!(unseal(&[8; 32], &tenant, "v", &cookie, NOW), None);
        let swapped = cookie.replacen("lead", "user", 1);
        let marked = cookie.replacen("lead", "lead+", 1);
        let renamed =
            seal(&[8; 32], &tenant, "v", &CookieClaims { who: Respondent::lead("x"), ..who.clone() }, until);
        let cut = &cookie[..cookie.len() - 1];
        for forged in [&swapped, &marked, &renamed, cut, "", "lead", "lead.YQ.9", "lead.YQ.9.", "a.b.c.d.e"] {
            assert_eq!(unseal(&KEY, &tenant, "v", forged, NOW), None, "{forged}");
        }
    }

    #[test]
    fn a_lead_has_a_name_and_an_address_and_is_known_by_the_address() {
        let tenant = TenantId::stored("t");
        let lead = |email: &str| Lead::new(" Ada ", email);
        let (a, b) = (lead("Ada@Example.org ").unwrap(), Lead::new("A. L.", "ada@example.ORG").unwrap());
        assert_eq!(a.name, "Ada");
        assert_eq!(a.entity_id(&KEY, &tenant), b.entity_id(&KEY, &tenant));
        assert!(uuid::Uuid::parse_str(&a.entity_id(&KEY, &tenant)).is_ok());
        assert_ne!(a.entity_id(&KEY, &tenant), a.entity_id(&KEY, &TenantId::stored("u")));
        for bad in ["", "ada", "@x.org", "ada@", "ada@org", "a b@x.org", "a@b@x.org", "a@.org", "a@x.\n"] {
            assert!(lead(bad).is_err(), "{bad:?}");
        }
        let long = |chars: usize| format!("{}@x.org", "a".repeat(chars - "@x.org".len()));
        assert!(lead(&long(limits::EMAIL_BYTES_MAX)).is_ok());
        assert!(lead(&long(limits::EMAIL_BYTES_MAX + 1)).is_err());
        assert!(Lead::new("", "a@x.org").is_err());
        assert!(Lead::new(&"n".repeat(limits::NAME_CHARS_MAX + 1), "a@x.org").is_err());
    }

    #[test]
    fn links_and_names_of_answers_follow_from_key_tenant_and_view() {
        let tenant = TenantId::stored("t");
        let token = link_token(&KEY, &tenant, "v");
        assert_eq!((token.len(), &token), (43, &link_token(&KEY, &tenant, "v")));
        assert_ne!(token, link_token(&KEY, &tenant, "w"));
        assert_ne!(token, link_token(&[8; 32], &tenant, "v"));
        let name = |kind, id: &str, view: &str| {
            Respondent { kind, id: id.to_owned() }.answer_name(&KEY, &tenant, view)
        };
        let names = [
            name(RespondentKind::User, "a", "v"),
            name(RespondentKind::Lead, "a", "v"),
            name(RespondentKind::User, "b", "v"),
            name(RespondentKind::User, "a", "w"),
        ];
        for (n, one) in names.iter().enumerate() {
            assert!(!names[..n].contains(one), "{n}");
        }
    }
}
