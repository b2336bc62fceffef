//go:build unix

package devstack

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"time"

	"github.com/holdfast-run/holdfast/clock"
	"github.com/holdfast-run/holdfast/fault"
)

const (
	caLife      = 10 * 365 * 24 * time.Hour
	serverLife  = 397 * 24 * time.Hour // the most that browsers accept
	renewBefore = 30 * 24 * time.Hour
)

// systemRoots are the usual places of the system's CA certificates, most common first.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
	"/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

// ensureCertificates makes the folder's CA once, and a server certificate for host besides
// the loopback names whenever the present one does not serve. roots is the file of CA
// certificates the caller trusts, or empty for the system's.
func ensureCertificates(l layout, host, roots string) error {
	ca, caKey, err := ensureCA(l)
	if err != nil {
		return err
	}
	if !serves(l, ca, host) {
		if err := issueServer(l, ca, caKey, host); err != nil {
			return err
		}
	}
	return writeBundle(l, ca, roots)
}

func ensureCA(l layout) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certificate, key, err := readPair(l.tls("ca.pem"), l.tls("ca-key.pem"))
	if err == nil && clock.Now().Before(certificate.NotAfter.Add(-renewBefore)) {
		return certificate, key, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fault.New(fault.Unavailable, "dev_ca",
			"The CA in %s cannot be read. Remove that folder to have a new one made.", l.path("tls")).Because(err)
	}
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{Organization: []string{"Holdfast"}, CommonName: "Holdfast dev CA " + rand.Text()[:6]},
		NotBefore:             clock.Now().Add(-time.Hour), // a clock may be a little behind
		NotAfter:              clock.Now().Add(caLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	certificate, err = sign(l.tls("ca.pem"), l.tls("ca-key.pem"), template, nil, key, key)
	return certificate, key, err
}

// serves tells whether the present server certificate is the CA's, names the host and will
// not expire soon.
func serves(l layout, ca *x509.Certificate, host string) bool {
	certificate, _, err := readPair(l.tls("server.pem"), l.tls("server-key.pem"))
	if err != nil || certificate.CheckSignatureFrom(ca) != nil {
		return false
	}
	for _, name := range append([]string{host}, loopbackNames()...) {
		if certificate.VerifyHostname(name) != nil {
			return false
		}
	}
	return clock.Now().Before(certificate.NotAfter.Add(-renewBefore))
}

func loopbackNames() []string { return []string{"localhost", "127.0.0.1", "::1"} }

func issueServer(l layout, ca *x509.Certificate, caKey *ecdsa.PrivateKey, host string) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		Subject:     pkix.Name{Organization: []string{"Holdfast"}, CommonName: host},
		NotBefore:   clock.Now().Add(-time.Hour),
		NotAfter:    clock.Now().Add(serverLife),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range append([]string{host}, loopbackNames()...) {
		if ip := net.ParseIP(name); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	_, err = sign(l.tls("server.pem"), l.tls("server-key.pem"), template, ca, key, caKey)
	return err
}

// sign issues a certificate for key and writes both; a nil issuer makes it self-signed.
func sign(certificateFile, keyFile string, template, issuer *x509.Certificate, key, issuerKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	if issuer == nil {
		issuer = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), issuerKey)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		writePrivate(keyFile, encodePEM("PRIVATE KEY", keyDER)),
		writePrivate(certificateFile, encodePEM("CERTIFICATE", der)),
	)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func encodePEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

// readPair reads a certificate and its key; they must belong together.
func readPair(certificateFile, keyFile string) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	certificateDER, err := readPEM(certificateFile)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := readPEM(keyFile)
	if err != nil {
		return nil, nil, err
	}
	certificate, err := x509.ParseCertificate(certificateDER)
	if err != nil {
		return nil, nil, err
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyDER)
	if err != nil {
		return nil, nil, err
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, nil, errors.New("the certificate and the key do not belong together")
	}
	return certificate, key, nil
}

func readPEM(file string) ([]byte, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(content)
	if block == nil {
		return nil, errors.New(file + " holds no PEM block")
	}
	return block.Bytes, nil
}

// writeBundle writes the file for SSL_CERT_FILE: what was trusted before, and the dev CA.
func writeBundle(l layout, ca *x509.Certificate, roots string) error {
	bundle := l.tls("bundle.pem")
	candidates := systemRoots
	if roots != "" && roots != bundle { // a shell that sourced DIR/env names our own bundle
		candidates = append([]string{roots}, systemRoots...)
	}
	var trusted []byte
	for _, file := range candidates {
		if content, err := os.ReadFile(file); err == nil {
			trusted = append(bytes.TrimSpace(content), '\n')
			break
		}
	}
	return writePrivate(bundle, string(trusted)+encodePEM("CERTIFICATE", ca.Raw))
}
