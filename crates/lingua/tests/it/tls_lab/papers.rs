//! Authorities and what they sign.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DnType,
    ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber, date_time_ymd,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};

const DAY: u64 = 24 * 3_600;

/// Somebody who signs certificates.
pub struct Authority {
    certificate: rcgen::Certificate,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key.
pub struct Paper {
    certificate: rcgen::Certificate,
    key: KeyPair,
    serial: u64,
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&key).unwrap();
        Authority { certificate, issuer: Issuer::new(params, key) }
    }

    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    /// Of an instance on this machine, good for 30 days.
    pub fn instance(&self) -> Paper {
        self.instance_for(30 * DAY as i64)
    }

    /// One that ends so many seconds from now.
    pub fn instance_for(&self, seconds: i64) -> Paper {
        let here = SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let name = SanType::DnsName("localhost".try_into().unwrap());
        self.sign(vec![here, name], seconds)
    }

    /// Of these nodes; one, if it is to be of any use.
    pub fn node(&self, names: &[&str]) -> Paper {
        self.node_for(names, 30 * DAY as i64)
    }

    pub fn node_for(&self, names: &[&str], seconds: i64) -> Paper {
        let uri = |name: &&str| SanType::URI(format!("lingua:node:{name}").try_into().unwrap());
        self.sign(names.iter().map(uri).collect(), seconds)
    }

    fn sign(&self, names: Vec<SanType>, seconds: i64) -> Paper {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        let serial = u64::from(rand::random::<u32>()) + 1;
        params.serial_number = Some(SerialNumber::from(serial));
        params.subject_alt_names = names;
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let now = UnixTime::now().as_secs();
        let ends = now.checked_add_signed(seconds).unwrap();
        let moment = |at: u64| date_time_ymd(1970, 1, 1) + Duration::from_secs(at);
        (params.not_before, params.not_after) = (moment(now - 90 * DAY), moment(ends));
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Paper { certificate, key, serial }
    }

    /// A list of what it takes back.
    pub fn taken_back(&self, papers: &[&Paper]) -> String {
        let moment = date_time_ymd(2026, 1, 1);
        let list = CertificateRevocationListParams {
            this_update: moment,
            next_update: date_time_ymd(2070, 1, 1),
            crl_number: SerialNumber::from(1_u64),
            issuing_distribution_point: None,
            revoked_certs: papers
                .iter()
                .map(|paper| RevokedCertParams {
                    serial_number: SerialNumber::from(paper.serial),
                    revocation_time: moment,
                    reason_code: None,
                    invalidity_date: None,
                })
                .collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        list.signed_by(&self.issuer).unwrap().pem().unwrap()
    }
}

impl Paper {
    pub fn cert_pem(&self) -> String {
        self.certificate.pem()
    }

    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    pub fn der(&self) -> CertificateDer<'static> {
        self.certificate.der().clone()
    }

    pub fn key_der(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::try_from(self.key.serialize_der()).unwrap()
    }
}
