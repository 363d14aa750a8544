//! Authenticates a caller: a credential in, an actor out. Everything that a credential depends on (its own life, its
//! tenant, its user, whether it may act for others) is judged here and nowhere else.

use super::Engine;
use crate::access::{Actor, Role, effective_role};
use crate::error::{Error, Result};
use crate::ids::{CredentialId, TenantId, UserId};
use crate::people::{KEY_PREFIX, SecretHash, User};
use crate::session::SourceKind;

/// What a caller presents.
#[derive(Clone, Copy)]
pub enum Credential<'a> {
    /// The secret of an API key.
    Key(&'a str),
    /// The token of a share link.
    Share(&'a str),
    /// The cookie of a browser session.
    Browser(&'a str),
    /// The claims of a token from an outside issuer. The surface checks its signature.
    Token(TokenClaims<'a>),
}

/// The claims of a token about its bearer.
#[derive(Clone, Copy, Debug)]
pub struct TokenClaims<'a> {
    pub tenant: &'a str,
    pub user: &'a str,
    pub role: &'a str,
}

/// Secrets do not print.
impl std::fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Key(_) => "Key",
            Self::Share(_) => "Share",
            Self::Browser(_) => "Browser",
            Self::Token(_) => "Token",
        })
    }
}

impl Engine {
    /// Who presents this, and for whom. All invalid credentials of a kind get one answer.
    pub async fn authenticate(&self, credential: Credential<'_>, acts_for: Option<&UserId>) -> Result<Actor> {
        let (actor, lends) = match credential {
            Credential::Key(secret) => self.bearer_of_key(secret).await?,
            Credential::Share(token) => (self.bearer_of_share(token).await?, false),
            Credential::Browser(secret) => (self.bearer_of_browser(secret).await?, false),
            Credential::Token(claims) => (self.bearer_of_token(claims).await?, false),
        };
        match acts_for {
            None => Ok(actor),
            Some(user) if lends => self.act_as(actor, user).await,
            Some(_) => Err(Error::denied("this credential may not act for others")),
        }
    }

    /// The actor that a caller with `act_as` becomes: the user's id, and the lower of both roles.
    pub async fn act_as(&self, lender: Actor, user: &UserId) -> Result<Actor> {
        let user = self
            .tenant
            .user(&lender.tenant, user)
            .await?
            .filter(User::is_active)
            .ok_or_else(|| Error::denied("there is no such active user to act for"))?;
        if !lender.role.is_person() {
            return Err(Error::denied("workers and channels act for nobody"));
        }
        Ok(Actor { role: lender.role.lower(user.role), user: Some(user.id), ..lender })
    }

    /// The bearer of a key, and whether the key may act as other users.
    pub(super) async fn bearer_of_key(&self, secret: &str) -> Result<(Actor, bool)> {
        let refused = || Error::Unauthenticated("the key is unknown, expired or revoked");
        if !secret.starts_with(KEY_PREFIX) {
            return Err(refused());
        }
        let found = self.tenant.key_by_hash(SecretHash::of(secret)).await?.ok_or_else(refused)?;
        if !found.is_valid(self.tenant.now().await?) {
            return Err(refused());
        }
        let role = found.role();
        let key = found.key;
        let actor = Actor {
            tenant: key.tenant,
            credential: key.id,
            role,
            user: key.user,
            prefix: key.prefix.map(Into::into),
            shared: None,
            view: None,
            link: None,
            surface: SourceKind::Api,
            rules: key.rules,
        };
        Ok((actor, key.act_as))
    }

    async fn bearer_of_share(&self, token: &str) -> Result<Actor> {
        let refused = || Error::Unauthenticated("the share link is unknown, expired or revoked");
        let hash = SecretHash::of(token);
        let share = self.sessions.share_by_hash(hash).await?.ok_or_else(refused)?;
        if !share.is_valid(self.tenant.now().await?) {
            return Err(refused());
        }
        if let Some(user) = &share.user {
            let found = self.tenant.user(&share.tenant, user).await?;
            found.filter(|found| found.is_active() && found.role != Role::Guest).ok_or_else(refused)?;
        }
        Ok(Actor {
            tenant: share.tenant,
            credential: CredentialId::stored(format!("share:{}", share.id)),
            role: Role::Share,
            user: share.user,
            prefix: None,
            shared: share.session.map(|session| (session, share.access)),
            view: share.view.map(Into::into),
            link: Some(hash),
            surface: SourceKind::Web,
            rules: crate::talk::route::ChannelRules::default(),
        })
    }

    /// A token's tenant exists and is not suspended, and its user is neither suspended nor merged into another. A user
    /// without a row has the role that the token says; one with a row never has more than the row says. A channel has
    /// a key instead of a token: the key holds its prefix.
    pub(super) async fn bearer_of_token(&self, claims: TokenClaims<'_>) -> Result<Actor> {
        let refused = || Error::Unauthenticated("the token is not valid here");
        let role = Role::parse(claims.role).ok().filter(|role| *role != Role::Channel).ok_or_else(refused)?;
        let tenant = TenantId::parse(claims.tenant).map_err(|_| refused())?;
        let user = UserId::parse(claims.user).map_err(|_| refused())?;
        if self.tenant.tenant(&tenant).await?.is_none_or(|tenant| tenant.suspended) {
            return Err(refused());
        }
        let row = self.tenant.user(&tenant, &user).await?;
        if row.as_ref().is_some_and(|row| !row.is_active()) {
            return Err(refused());
        }
        let role = effective_role(role, row.map(|row| row.role));
        Ok(Actor {
            tenant,
            credential: CredentialId::stored(format!("jwt:{user}")),
            role,
            user: Some(user),
            prefix: None,
            shared: None,
            view: None,
            link: None,
            surface: SourceKind::Api,
            rules: crate::talk::route::ChannelRules::default(),
        })
    }
}
