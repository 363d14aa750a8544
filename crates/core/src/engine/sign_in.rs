//! Signing in from a browser: a key or a token is exchanged for a cookie, so that no page holds a credential.

use super::people::audit;
use super::{Credential, Engine};
use crate::access::{Actor, Role};
use crate::error::{Error, Result};
use crate::ids::CredentialId;
use crate::limits;
use crate::people::browser::{latest_end, removed_by_another};
use crate::people::{BrowserSession, SecretHash, SignInProof, User};
use crate::session::SourceKind;
use crate::store::{Change, Record};
use crate::time::Timestamp;

/// A person who has signed in, and the cookie's value. It is shown to nobody else and stored nowhere.
#[derive(Clone, Debug)]
pub struct SignedIn {
    pub session: BrowserSession,
    pub secret: String,
}

impl Engine {
    /// Exchanges a key or a token of a person for a browser session. `ends_at` is the end of a token; a key has its own.
    pub async fn sign_in(
        &self,
        credential: Credential<'_>,
        ends_at: Option<Timestamp>,
        browser: Option<&str>,
    ) -> Result<SignedIn> {
        let (actor, proof, ends_at) = match credential {
            Credential::Key(secret) => {
                let (actor, may_act_as) = self.bearer_of_key(secret).await?;
                if may_act_as {
                    return Err(Error::denied(
                        "a key that acts for others does not sign in; use a person's own key",
                    ));
                }
                let own = self.tenant.keys(&actor.tenant).await?;
                let ends_at =
                    own.iter().find(|key| key.id == actor.credential).and_then(|key| key.expires_at);
                let proof = SignInProof::Key(actor.credential.clone());
                (actor, proof, ends_at)
            }
            Credential::Token(claims) => (self.bearer_of_token(claims).await?, SignInProof::Token, ends_at),
            Credential::Share(_) | Credential::Browser(_) => {
                return Err(Error::Unauthenticated("sign in with a key or a token"));
            }
        };
        if !actor.role.is_person() {
            return Err(Error::denied(
                "people sign in; workers and channels use their key with each request",
            ));
        }
        let now = self.tenant.now().await?;
        let session = BrowserSession {
            id: self.ids.ordered().to_string(),
            tenant: actor.tenant.clone(),
            user: actor.user.clone(),
            role: actor.role,
            browser: browser.map(|name| name.chars().take(limits::BROWSER_NAME_CHARS_MAX).collect()),
            created_at: now,
            seen_at: now,
            expires_at: latest_end(now, ends_at),
            proof,
        };
        let secret = self.ids.secret();
        let hash = SecretHash::of(&secret);
        let own =
            self.tenant.browser_sessions(&actor.tenant, session.user.as_ref(), session.proof.key()).await?;
        let removed = removed_by_another(own, now).into_iter();
        let change = removed
            .fold(Change::new(actor.tenant.clone()), |change, gone| {
                change.record(Record::DropBrowserSession { id: gone.id.into() })
            })
            .record(Record::AddBrowserSession { session: session.clone(), hash })
            .audited(audit(&actor, "browser.sign_in", &session.id));
        self.commit(change).await?;
        Ok(SignedIn { session, secret })
    }

    /// The browser sessions of the caller that are not over, the newest first.
    pub async fn browser_sessions(&self, actor: &Actor) -> Result<Vec<BrowserSession>> {
        check_person(actor)?;
        let now = self.tenant.now().await?;
        let key = actor.user.is_none().then_some(&actor.credential);
        let mut own = self.tenant.browser_sessions(&actor.tenant, actor.user.as_ref(), key).await?;
        own.retain(|session| !session.is_over(now));
        Ok(own)
    }

    /// Signs a browser of the caller out. Nothing happens to one that is over, or that is another person's.
    pub async fn end_browser_session(&self, actor: &Actor, id: &str) -> Result<()> {
        if !self.browser_sessions(actor).await?.iter().any(|session| session.id == id) {
            return Ok(());
        }
        let change = Change::new(actor.tenant.clone())
            .record(Record::DropBrowserSession { id: id.into() })
            .audited(audit(actor, "browser.sign_out", id));
        self.commit(change).await.map(drop)
    }

    /// Signs out the browser that presents this cookie. A cookie that opens nothing any more is no error.
    pub async fn sign_out(&self, secret: &str) -> Result<()> {
        let Some(found) = self.tenant.browser_session_by_hash(SecretHash::of(secret)).await? else {
            return Ok(());
        };
        let actor = bearer(&found.session, found.role());
        let change = Change::new(actor.tenant.clone())
            .record(Record::DropBrowserSession { id: found.session.id.as_str().into() })
            .audited(audit(&actor, "browser.sign_out", &found.session.id));
        self.commit(change).await.map(drop)
    }

    /// The browser session of a cookie, if it opens anything now.
    pub async fn browser_session(&self, secret: &str) -> Result<BrowserSession> {
        let refused = || Error::Unauthenticated("you are signed out; sign in again");
        let found = self.tenant.browser_session_by_hash(SecretHash::of(secret)).await?.ok_or_else(refused)?;
        let now = self.tenant.now().await?;
        match found.is_valid(now) {
            true => Ok(BrowserSession { role: found.role(), ..found.session }),
            false => Err(refused()),
        }
    }

    /// The row of the caller's own user.
    pub async fn own_user(&self, actor: &Actor) -> Result<Option<User>> {
        match &actor.user {
            None => Ok(None),
            Some(user) => self.tenant.user(&actor.tenant, user).await,
        }
    }

    pub(super) async fn bearer_of_browser(&self, secret: &str) -> Result<Actor> {
        let session = self.browser_session(secret).await?;
        if session.is_long_unseen(self.tenant.now().await?) {
            let used = Record::TouchBrowserSession { id: session.id.as_str().into() };
            // A store that takes no writes now still answers reads; the next request tries again.
            drop(self.commit(Change::new(session.tenant.clone()).record(used)).await);
        }
        Ok(bearer(&session, session.role))
    }
}

/// Who acts in a browser session: the person who signed in, under the credential that they signed in with.
fn bearer(session: &BrowserSession, role: Role) -> Actor {
    let credential = match (&session.proof, &session.user) {
        (SignInProof::Key(id), _) => id.clone(),
        (SignInProof::Token, Some(user)) => CredentialId::stored(format!("jwt:{user}")),
        (SignInProof::Token, None) => CredentialId::stored(format!("browser:{}", session.id)),
    };
    Actor {
        tenant: session.tenant.clone(),
        credential,
        role,
        user: session.user.clone(),
        prefix: None,
        shared: None,
        view: None,
        link: None,
        surface: SourceKind::Web,
        rules: crate::talk::route::ChannelRules::default(),
    }
}

fn check_person(actor: &Actor) -> Result<()> {
    if actor.role.is_person() {
        return Ok(());
    }
    Err(Error::denied("people sign in; workers, channels and links do not"))
}
