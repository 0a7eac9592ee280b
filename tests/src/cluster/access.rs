//! Who may talk to the API server: tokens, kubeconfigs, and the key that signs the tokens of
//! service accounts.

use std::path::Path;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use serde_json::json;

use super::parts::Part;
use super::trouble::{Result, Trouble};

/// The group that may do everything.
const ADMINISTRATORS: &str = "system:masters";
/// How the user names of service accounts begin; namespace and name follow.
pub(super) const SERVICE_ACCOUNT: &str = "system:serviceaccount:";
/// The user of tests themselves.
pub(super) const ADMIN: &str = "admin";

/// Somebody with a token, known to the API server from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Groups; roles are bound to these or to the name.
    pub groups: Vec<String>,
}

impl User {
    /// A user.
    pub fn new(name: &str, groups: &[&str]) -> User {
        User {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }
}

/// All users of a cluster with their tokens.
#[derive(Clone, Debug)]
pub(super) struct Tokens(Vec<(User, String)>);

impl Tokens {
    /// Tokens for the administrator, for every part as a user of its own, and for these users.
    pub fn new(users: &[User]) -> Result<Tokens> {
        let clients = [Part::ControllerManager, Part::Scheduler, Part::Kwok];
        let names = clients.iter().map(|part| part.program()).chain([ADMIN]);
        let ours = names.map(|name| User::new(name, &[ADMINISTRATORS]));
        let mut rows: Vec<(User, String)> = Vec::new();
        for user in ours.chain(users.iter().cloned()) {
            if rows.iter().any(|(other, _)| other.name == user.name) {
                return Err(Trouble::new(format!("two users are named {}", user.name)));
            }
            rows.push((user, token()?));
        }
        Ok(Tokens(rows))
    }

    /// The token of a user.
    pub fn of(&self, user: &str) -> Result<&str> {
        let row = self.0.iter().find(|(known, _)| known.name == user);
        row.map(|(_, token)| token.as_str()).ok_or_else(|| {
            Trouble::new(format!("no user {user}: name it in the options of the cluster"))
        })
    }

    /// The file that the API server reads.
    pub fn csv(&self) -> String {
        let row = |(user, token): &(User, String)| {
            format!("{token},{},{},\"{}\"\n", user.name, user.name, user.groups.join(","))
        };
        self.0.iter().map(row).collect()
    }
}

fn token() -> Result<String> {
    let mut bytes = [0u8; 16];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Trouble::new("no random numbers from the system"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The two halves of a key, as PEM.
pub(super) struct Keys {
    /// Signs.
    pub private: String,
    /// Checks.
    pub public: String,
}

/// What stands before the 65 bytes of a point on P-256 to make them a public key in DER.
const PUBLIC_P256: [u8; 26] = [
    0x30, 0x59, 0x30, 0x13, 0x06, 0x07, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x02, 0x01, 0x06, 0x08, 0x2a,
    0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07, 0x03, 0x42, 0x00,
];

/// A new key for the tokens of service accounts: ECDSA on P-256, which the API server takes like
/// RSA and which is made at once.
pub(super) fn signing_keys() -> Result<Keys> {
    let none = |_| Trouble::new("no key from the system's random numbers");
    let (random, kind) = (SystemRandom::new(), &ECDSA_P256_SHA256_ASN1_SIGNING);
    let private = EcdsaKeyPair::generate_pkcs8(kind, &random).map_err(none)?;
    let pair = EcdsaKeyPair::from_pkcs8(kind, private.as_ref(), &random);
    let pair = pair.map_err(|e| Trouble::new(format!("a key just made: {e}")))?;
    let public = [&PUBLIC_P256[..], pair.public_key().as_ref()].concat();
    let pem = |tag: &str, bytes: &[u8]| pem::encode(&pem::Pem::new(tag, bytes));
    Ok(Keys { private: pem("PRIVATE KEY", private.as_ref()), public: pem("PUBLIC KEY", &public) })
}

/// A kubeconfig: YAML, of which JSON is a part. A service account's is at home in its namespace,
/// as its pods are.
pub(super) fn kubeconfig(server: &str, authority: &Path, user: &str, token: &str) -> String {
    let account = user.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
    let namespace = account.map_or("default", |(namespace, _)| namespace);
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "test",
            "cluster": {"server": server, "certificate-authority": authority},
        }],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{
            "name": "test",
            "context": {"cluster": "test", "user": user, "namespace": namespace},
        }],
        "current-context": "test",
    });
    format!("{config:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_at_home_in_its_namespace() {
        let home = |user: &str| {
            let text = kubeconfig("https://127.0.0.1:1", Path::new("ca.crt"), user, "token");
            let config: serde_json::Value = serde_json::from_str(&text).expect("JSON");
            config["contexts"][0]["context"]["namespace"].clone()
        };
        assert_eq!(home("system:serviceaccount:team:robot"), "team");
        assert_eq!(home("ann"), "default");
    }

    #[test]
    fn every_user_has_a_token_of_its_own() {
        let users = [User::new("ann", &["team-a", "team-b"])];
        let tokens = Tokens::new(&users).expect("tokens");
        let (ann, admin) = (tokens.of("ann").expect("known"), tokens.of(ADMIN).expect("known"));
        assert_ne!(ann, admin);
        let csv = tokens.csv();
        assert!(csv.contains(&format!("{ann},ann,ann,\"team-a,team-b\"\n")), "{csv}");
        assert!(csv.contains(&format!("{admin},admin,admin,\"system:masters\"\n")), "{csv}");
        assert!(tokens.of("bob").unwrap_err().to_string().starts_with("no user bob"));
        assert!(Tokens::new(&[User::new(ADMIN, &[])]).is_err());
    }
}
