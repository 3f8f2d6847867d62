package provider

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"
)

// authority signs certificates for the tests.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	a.cert = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	raw, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	if a.cert, err = x509.ParseCertificate(raw); err != nil {
		t.Fatal(err)
	}
	return a
}

// issue makes a certificate for an address.
func (a *authority) issue(t *testing.T, ip string, until time.Time) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, IPAddresses: []net.IP{net.ParseIP(ip)},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	raw, err := x509.CreateCertificate(rand.Reader, leaf, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{raw}, PrivateKey: key}
}

// TestServersThatCannotBeTrusted: no byte of a request leaves, over one
// connection, and the class is one that stops the run.
func TestServersThatCannotBeTrusted(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	later := time.Now().Add(time.Hour)
	for _, tt := range []struct {
		name string
		cert tls.Certificate
		max  uint16
		want Kind
	}{
		{"trusted", ours.issue(t, "127.0.0.1", later), 0, KindNone},
		{"expired", ours.issue(t, "127.0.0.1", time.Now().Add(-time.Minute)), 0, KindTLS},
		{"wrong name", ours.issue(t, "127.0.0.2", later), 0, KindTLS},
		{"unknown authority", theirs.issue(t, "127.0.0.1", later), 0, KindTLS},
		{"TLS 1.1", ours.issue(t, "127.0.0.1", later), tls.VersionTLS11, KindTLS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var connections, requests atomic.Int64
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests.Add(1)
				_, err := io.Copy(io.Discard, r.Body)
				_, writeErr := io.WriteString(w, "{}")
				if err := errors.Join(err, writeErr); err != nil {
					t.Error(err)
				}
			}))
			s.TLS = &tls.Config{Certificates: []tls.Certificate{tt.cert}, MinVersion: tls.VersionTLS10, MaxVersion: tt.max}
			s.Config.ErrorLog = log.New(io.Discard, "", 0)
			s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
				if state == http.StateNew {
					connections.Add(1)
				}
			}
			s.StartTLS()
			defer s.Close()
			roots := x509.NewCertPool()
			roots.AddCert(ours.cert)
			tr := NewTransport(TransportOptions{RootCAs: roots})
			defer tr.Close()
			u, err := url.Parse(s.URL)
			if err != nil {
				t.Fatal(err)
			}
			_, e := tr.Do(t.Context(), Exchange{URL: u, Header: http.Header{}, Body: []byte("{}")})
			got, sent := KindNone, false
			if e != nil {
				got, sent = e.Kind, e.Sent
			}
			if good := tt.want == KindNone; got != tt.want || connections.Load() != 1 || !good && (sent || requests.Load() > 0) {
				t.Errorf("got %v, %d connections, %d requests; want %s over one connection, and no request but to the trusted", e, connections.Load(), requests.Load(), tt.want)
			}
		})
	}
}
