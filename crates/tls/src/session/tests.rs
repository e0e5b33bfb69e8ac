use std::{path::PathBuf, sync::Arc};

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::{
    ClientConnection, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer},
};

use super::*;
use crate::{Handshake, Identity, IdentityError, Part, Revoked};

/// Files of an authority and of the branches it signed.
struct Pki {
    folder: PathBuf,
}

impl Pki {
    fn new(name: &str, branches: &[&str]) -> Self {
        let folder = std::env::temp_dir().join(format!("hawser-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let ca = params.self_signed(&key).unwrap();
        let pki = Self { folder };
        pki.write("ca.pem", &ca.pem());
        let issuer = Issuer::from_params(&params, &key);
        for branch in branches {
            let key = KeyPair::generate().unwrap();
            let params = CertificateParams::new([(*branch).to_owned()]).unwrap();
            let certificate = params.signed_by(&key, &issuer).unwrap();
            pki.write(&format!("{branch}.pem"), &certificate.pem());
            pki.write(&format!("{branch}.key"), &key.serialize_pem());
        }
        pki
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.folder.join(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn identity(&self, branch: &str) -> Identity {
        let (certificate, key) = (format!("{branch}.pem"), format!("{branch}.key"));
        Identity::load(
            &self.path(&certificate),
            &self.path(&key),
            &self.path("ca.pem"),
            Revoked::default(),
        )
        .unwrap()
    }
}

impl Drop for Pki {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Lets two sides talk until both are done.
fn shake(mut client: Handshake, mut server: Handshake) -> Result<(Session, Session), Error> {
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    let (mut client_done, mut server_done) = (false, false);
    for _ in 0..10 {
        let step = client.advance(&mut to_client, &mut to_server)?;
        to_client.drain(..step.consumed);
        client_done = step.done;
        let step = server.advance(&mut to_server, &mut to_client)?;
        to_server.drain(..step.consumed);
        server_done = step.done;
        if client_done && server_done {
            return Ok((client.finish()?, server.finish()?));
        }
    }
    panic!("no end: client {client_done}, server {server_done}");
}

fn pair(name: &str) -> (Session, Session) {
    let pki = Pki::new(name, &["b1", "b2"]);
    let client = Handshake::client(&pki.identity("b1"), "b2").unwrap();
    shake(client, Handshake::server(&pki.identity("b2")).unwrap()).unwrap()
}

fn seal(session: &mut Session, plain: &[u8]) -> Vec<u8> {
    let mut out = vec![0; sealed_len(plain.len())];
    let len = session.seal(plain, &mut out).unwrap();
    out.truncate(len);
    out
}

/// Opens all of `sealed`.
fn open(session: &mut Session, mut sealed: &[u8]) -> Result<Vec<u8>, Error> {
    let (mut plain, mut out) = (Vec::new(), vec![0; MAX_PLAINTEXT_LEN + 256]);
    while !sealed.is_empty() {
        match session.open(sealed, &mut out)? {
            Opened::Record { consumed, written } => {
                plain.extend_from_slice(&out[..written]);
                sealed = &sealed[consumed..];
            }
            other => panic!("{other:?}"),
        }
    }
    Ok(plain)
}

#[test]
fn both_ends_know_each_other() {
    let (client, server) = pair("names");
    assert!(client.is_with("b2") && server.is_with("b1"));
    assert!(!client.is_with("b1") && !server.is_with("b3"));
}

#[test]
fn data_survives_renewed_keys() {
    let (mut client, mut server) = pair("renew");
    client.key_lifetime = 3;
    for n in 0..20_u8 {
        let plain = vec![n; 20_000];
        let sealed = seal(&mut client, &plain);
        assert_eq!(open(&mut server, &sealed).unwrap(), plain);
        // a request to renew is answered with the next data
        server.update_due = n % 3 == 0;
        let sealed = seal(&mut server, b"answer");
        assert_eq!(open(&mut client, &sealed).unwrap(), b"answer");
    }
}

#[test]
fn a_changed_record_is_refused() {
    let (mut client, mut server) = pair("changed");
    let mut sealed = seal(&mut client, b"payload");
    sealed[7] ^= 1;
    assert!(matches!(open(&mut server, &sealed), Err(Error::NotAuthentic)));
}

#[test]
fn a_repeated_record_is_refused() {
    let (mut client, mut server) = pair("repeated");
    let sealed = seal(&mut client, b"payload");
    open(&mut server, &sealed).unwrap();
    assert!(matches!(open(&mut server, &sealed), Err(Error::NotAuthentic)));
}

#[test]
fn a_branch_of_another_authority_is_refused() {
    let (ours, theirs) = (Pki::new("ours", &["b1"]), Pki::new("theirs", &["b2"]));
    let client = Handshake::client(&ours.identity("b1"), "b2").unwrap();
    let server = Handshake::server(&theirs.identity("b2")).unwrap();
    let error = shake(client, server).err().unwrap().to_string();
    assert!(error.contains("invalid peer certificate"), "{error}");
}

#[test]
fn a_branch_of_another_name_is_refused() {
    let pki = Pki::new("name", &["b1", "b2"]);
    let client = Handshake::client(&pki.identity("b1"), "b3").unwrap();
    let error = shake(client, Handshake::server(&pki.identity("b2")).unwrap()).err().unwrap();
    assert!(error.to_string().contains("not valid for name"), "{error}");
}

#[test]
fn a_failed_handshake_leaves_an_alert_to_send() {
    let pki = Pki::new("alert", &["b1", "b2"]);
    let mut client = Handshake::client(&pki.identity("b1"), "b3").unwrap();
    let mut server = Handshake::server(&pki.identity("b2")).unwrap();
    let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
    client.advance(&mut [], &mut to_server).unwrap();
    server.advance(&mut to_server, &mut to_client).unwrap();
    to_server.clear();
    client.advance(&mut to_client, &mut to_server).unwrap_err();
    assert!(!to_server.is_empty());
    assert!(server.advance(&mut to_server, &mut to_client).is_err());
}

#[test]
fn unusable_files_are_named() {
    let pki = Pki::new("files", &["b1"]);
    let load = |certificate: &str, key: &str, ca: &str| {
        Identity::load(&pki.path(certificate), &pki.path(key), &pki.path(ca), Revoked::default())
            .unwrap_err()
    };
    assert_eq!(load("nothing.pem", "b1.key", "ca.pem").part(), Part::Certificate);
    assert_eq!(load("b1.pem", "b1.pem", "ca.pem").part(), Part::Key);
    assert_eq!(load("b1.pem", "b1.key", "b1.key").part(), Part::Authority);
    assert!(matches!(load("b1.pem", "none", "ca.pem"), IdentityError::File { .. }));
}

/// Our record protection against that of rustls: a plain rustls client on the other end.
#[test]
fn rustls_understands_us() {
    let pki = Pki::new("rustls", &["b1", "b2"]);
    let mut theirs =
        ClientConnection::new(pki.identity("b1").client, "b2".try_into().unwrap()).unwrap();
    let mut ours = Handshake::server(&pki.identity("b2")).unwrap();
    let (mut to_us, mut to_them) = (Vec::new(), Vec::new());
    std::io::Write::write_all(&mut theirs.writer(), &vec![7; 60_000]).unwrap();
    loop {
        while theirs.wants_write() {
            theirs.write_tls(&mut to_us).unwrap();
        }
        let step = ours.advance(&mut to_us, &mut to_them).unwrap();
        to_us.drain(..step.consumed);
        if step.done {
            break;
        }
        let mut flight = to_them.as_slice();
        while !flight.is_empty() {
            theirs.read_tls(&mut flight).unwrap();
            theirs.process_new_packets().unwrap();
        }
        to_them.clear();
    }
    let mut ours = ours.finish().unwrap();
    while theirs.wants_write() {
        theirs.write_tls(&mut to_us).unwrap();
    }
    let mut seen = open(&mut ours, &to_us).unwrap();
    theirs.refresh_traffic_keys().unwrap();
    std::io::Write::write_all(&mut theirs.writer(), &[8; 10_000]).unwrap();
    to_us.clear();
    while theirs.wants_write() {
        theirs.write_tls(&mut to_us).unwrap();
    }
    seen.extend(open(&mut ours, &to_us).unwrap());
    assert_eq!(seen, [vec![7; 60_000], vec![8; 10_000]].concat());

    ours.update_due = true;
    let sealed = [to_them, seal(&mut ours, &vec![9; 50_000])].concat();
    let (mut sealed, mut seen) = (sealed.as_slice(), Vec::new());
    while !sealed.is_empty() {
        theirs.read_tls(&mut sealed).unwrap();
        theirs.process_new_packets().unwrap();
        let _ = std::io::Read::read_to_end(&mut theirs.reader(), &mut seen);
    }
    assert_eq!(seen, vec![9; 50_000]);
}

#[test]
fn a_certificate_without_an_authority_is_no_identity() {
    let roots = Arc::new(RootCertStore::empty());
    let key = PrivateKeyDer::try_from(KeyPair::generate().unwrap().serialize_der()).unwrap();
    let chain: [CertificateDer<'static>; 0] = [];
    assert!(Identity::new(&chain, &key, roots, Arc::default()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_sealed_opens(plain in proptest::collection::vec(any::<u8>(), 0..50_000)) {
        thread_local! {
            static PAIR: std::cell::RefCell<(Session, Session)> = std::cell::RefCell::new(pair("prop"));
        }
        PAIR.with_borrow_mut(|(client, server)| {
            let sealed = seal(client, &plain);
            assert!(sealed.len() <= sealed_len(plain.len()));
            assert_eq!(open(server, &sealed).unwrap(), plain);
        });
    }

    #[test]
    fn no_bytes_panic(sealed in proptest::collection::vec(any::<u8>(), 0..100)) {
        thread_local! {
            static PAIR: std::cell::RefCell<(Session, Session)> = std::cell::RefCell::new(pair("bytes"));
        }
        PAIR.with_borrow_mut(|(client, _)| {
            let _ = client.open(&sealed, &mut vec![0; MAX_PLAINTEXT_LEN + 256]);
        });
    }
}
