package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nkeys"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string
}

// newAuthority is one whose certificate is in a file of its own.
func newAuthority(t *testing.T, name string) *authority {
	a := &authority{t: t}
	a.file, _ = a.issue(&x509.Certificate{Subject: commonName(name), IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue returns the files of a certificate and its key. The first one is the authority's.
func (a *authority) issue(c *x509.Certificate) (cert, key string) {
	a.t.Helper()
	c.SerialNumber = big.NewInt(time.Now().UnixNano())
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(a.t, err)
	if a.cert == nil {
		a.cert, a.key = c, private
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.cert, private.Public(), a.key)
	must(a.t, err)
	if c.IsCA {
		a.cert, err = x509.ParseCertificate(der)
		must(a.t, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	must(a.t, err)
	return a.write("cert.pem", "CERTIFICATE", der), a.write("key.pem", "PRIVATE KEY", secret)
}

func (a *authority) write(name, kind string, data []byte) string {
	file := filepath.Join(a.t.TempDir(), name)
	must(a.t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: data}), 0o600))
	return file
}

// issueFor is a certificate of a server at the loopback address, or of a client.
func (a *authority) issueFor(use x509.ExtKeyUsage) (cert, key string) {
	return a.issue(&x509.Certificate{Subject: commonName("it"),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{use},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
}

// refused makes sure that a command ends with one line that matches, and has printed nothing.
func refused(t *testing.T, want string, args ...string) {
	t.Helper()
	status, stdout, stderr := call(t, args...)
	if status != 1 || stdout != "" || strings.Count(stderr, "\n") != 1 ||
		!regexp.MustCompile("(?i)"+want).MatchString(stderr) {
		t.Errorf("%q: status %d, stdout %q, stderr %q, want 1, nothing and one line with %q", args,
			status, stdout, stderr, want)
	}
}

// lists makes sure that status shows a worker, or none.
func lists(t *testing.T, worker string, want bool, args ...string) {
	t.Helper()
	if want {
		listing(t, " "+worker+" ", args...)
	} else if list := statusOf(t, args...); strings.Contains(list, " "+worker+" ") {
		t.Errorf("%q lists %s:\n%s", args, worker, list)
	}
}

// listing is what status shows once it has a text: workers are heard of late if the machine has
// much to do.
func listing(t *testing.T, text string, args ...string) (list string) {
	t.Helper()
	must(t, eventually(t.Context(), time.Minute, func() error {
		if list = statusOf(t, args...); !strings.Contains(list, text) {
			return fmt.Errorf("%q: no %q in\n%s", args, text, list)
		}
		return nil
	}))
	return list
}

// statusOf is what status shows after a moment.
func statusOf(t *testing.T, args ...string) string {
	t.Helper()
	status, stdout, stderr := call(t, append([]string{"status", "-wait", "300ms"}, args...)...)
	if status != 0 || stderr != "" {
		t.Fatalf("%q: status %d, stderr %q", args, status, stderr)
	}
	return stdout
}

// TestTLS is of a server with a certificate that wants one of its clients, too.
func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t, "ours"), newAuthority(t, "theirs")
	cert, key := ours.issueFor(x509.ExtKeyUsageServerAuth)
	config, err := server.GenTLSConfig(&server.TLSConfigOpts{CertFile: cert, KeyFile: key,
		CaFile: ours.file, Verify: true})
	must(t, err)
	if config.ClientAuth != tls.RequireAndVerifyClientCert {
		t.Fatalf("ClientAuth is %v", config.ClientAuth)
	}
	url := startServer(t, server.Options{TLS: true, TLSVerify: true, TLSConfig: config, TLSTimeout: 5})
	if !strings.HasPrefix(url, "tls://") {
		t.Fatalf("the address is %s", url)
	}
	cert, key = ours.issueFor(x509.ExtKeyUsageClientAuth)
	good := []string{"-url", url, "-tls-ca", ours.file, "-tls-cert", cert, "-tls-key", key}
	_, stop := serve(t, append([]string{"-name", "tls", "-memory", "1MiB"}, good...)...)
	lists(t, "tls", true, good...)
	const unknown = "certificate signed by unknown authority"
	refused(t, unknown, "status", "-url", url, "-tls-ca", theirs.file, "-tls-cert", cert,
		"-tls-key", key)
	refused(t, unknown, "status", "-url", url, "-tls-cert", cert, "-tls-key", key)
	// The server says why, but its connection may end before that is read.
	const bad = "remote error: tls: |tls error: connection closed by remote"
	refused(t, bad, "status", "-url", url, "-tls-ca", ours.file)
	cert, key = theirs.issueFor(x509.ExtKeyUsageClientAuth)
	refused(t, bad, "status", "-url", url, "-tls-ca", ours.file, "-tls-cert", cert,
		"-tls-key", key)
	cert, key = ours.issueFor(x509.ExtKeyUsageServerAuth)
	refused(t, bad, "serve", "-memory", "1MiB", "-url", url, "-tls-ca", ours.file,
		"-tls-cert", cert, "-tls-key", key)
	if status := stop(); status != 0 {
		t.Errorf("the worker ended with %d", status)
	}
}

// operator is the root of trust of a server: it signs accounts, which sign users.
type operator struct {
	t   *testing.T
	key nkeys.KeyPair
}

func newKey(t *testing.T, kind nkeys.PrefixByte) (pair nkeys.KeyPair, public string) {
	t.Helper()
	pair, err := nkeys.CreatePair(kind)
	must(t, err)
	public, err = pair.PublicKey()
	must(t, err)
	return pair, public
}

// account is a new one, which the resolver knows if there is one.
func (o *operator) account(resolver server.AccountResolver) nkeys.KeyPair {
	o.t.Helper()
	pair, public := newKey(o.t, nkeys.PrefixByteAccount)
	token, err := jwt.NewAccountClaims(public).Encode(o.key)
	must(o.t, err)
	if resolver != nil {
		must(o.t, resolver.Store(public, token))
	}
	return pair
}

// credentials is the file of a user who may publish and subscribe to some subjects.
func credentials(t *testing.T, account nkeys.KeyPair, publish, subscribe string) string {
	t.Helper()
	pair, public := newKey(t, nkeys.PrefixByteUser)
	claims := jwt.NewUserClaims(public)
	claims.Pub.Allow, claims.Sub.Allow = strings.Fields(publish), strings.Fields(subscribe)
	token, err := claims.Encode(account)
	must(t, err)
	seed, err := pair.Seed()
	must(t, err)
	data, err := jwt.FormatUserConfig(token, seed)
	must(t, err)
	file := filepath.Join(t.TempDir(), "user.creds")
	must(t, os.WriteFile(file, data, 0o600))
	return file
}

// TestCredentials has a server that trusts an operator. Permissions are as in docs/cluster.md.
func TestCredentials(t *testing.T) {
	key, public := newKey(t, nkeys.PrefixByteOperator)
	trusted := &operator{t, key}
	resolver := new(server.MemAccResolver)
	one, two := trusted.account(resolver), trusted.account(resolver)
	url := startServer(t, server.Options{AccountResolver: resolver,
		TrustedOperators: []*jwt.OperatorClaims{jwt.NewOperatorClaims(public)}})
	const publish, subscribe = "a.worker.* a.hello", "a.inbox.> a.status"
	worker := credentials(t, one, "a.inbox.> a.status a.worker.*", "a.worker.* a.hello a.inbox.>")
	client := credentials(t, one, publish, subscribe)
	_, stop := serve(t, "-url", url, "-prefix", "a", "-name", "jwt", "-memory", "1MiB",
		"-announce", "50ms", "-creds", worker)
	lists(t, "jwt", true, "-url", url, "-prefix", "a", "-creds", client)

	// The account of somebody else is another world.
	other := credentials(t, two, publish, subscribe)
	lists(t, "jwt", false, "-url", url, "-prefix", "a", "-creds", other)
	// Who is of the account, but has permission for another prefix, sees nothing of this one.
	tenant := credentials(t, one, "b.worker.* b.hello", "b.inbox.> b.status")
	lists(t, "jwt", false, "-url", url, "-prefix", "b", "-creds", tenant)

	stranger, _ := newKey(t, nkeys.PrefixByteOperator)
	unknown := (&operator{t, stranger}).account(resolver)
	const refusal = "authorization violation"
	refused(t, refusal, "status", "-url", url, "-prefix", "a")
	refused(t, refusal, "serve", "-memory", "1MiB", "-url", url, "-prefix", "a")
	refused(t, refusal, "status", "-url", url, "-prefix", "a", "-creds",
		credentials(t, unknown, publish, subscribe))
	refused(t, refusal, "status", "-url", url, "-prefix", "a", "-creds",
		credentials(t, trusted.account(nil), publish, subscribe))
	if status := stop(); status != 0 {
		t.Errorf("the worker ended with %d", status)
	}
}

// TestOtherPrefix makes sure that who may not use a prefix is told so, and does not wait in vain.
func TestOtherPrefix(t *testing.T) {
	key, public := newKey(t, nkeys.PrefixByteOperator)
	resolver := new(server.MemAccResolver)
	account := (&operator{t, key}).account(resolver)
	url := startServer(t, server.Options{AccountResolver: resolver,
		TrustedOperators: []*jwt.OperatorClaims{jwt.NewOperatorClaims(public)}})
	const publish, subscribe = "a.worker.* a.hello", "a.inbox.> a.status"
	tenant := credentials(t, account, "b.>", "b.>")
	client := credentials(t, account, publish, subscribe)
	silent := credentials(t, account, publish, "a.inbox.>")
	refused(t, "permissions violation", "status", "-url", url, "-prefix", "a", "-creds", tenant)
	refused(t, "permissions violation", "serve", "-memory", "1MiB", "-url", url, "-prefix", "a",
		"-creds", tenant)
	refused(t, "permissions violation", "serve", "-memory", "1MiB", "-url", url, "-prefix", "a",
		"-creds", client)
	refused(t, "permissions violation", "status", "-wait", "300ms", "-url", url, "-prefix", "a",
		"-creds", silent)
}

func commonName(name string) pkix.Name { return pkix.Name{CommonName: name} }
