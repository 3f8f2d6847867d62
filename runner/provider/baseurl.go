package provider

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// ErrPlainHTTP is wrapped by the error of [CheckBaseURL] for an http:// URL to
// another machine, so that a command can name the flag that allows it.
var ErrPlainHTTP = errors.New("plain HTTP would send the key and the prompts readable by others")

// CheckBaseURL parses a base URL and refuses what could leak the key: schemes
// other than https, http to another machine (unless allowPlain), credentials
// inside, a query. Its errors show the host at most.
func CheckBaseURL(raw string, allowPlain bool) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "" {
		return nil, errors.New("base URL: want https://host/path")
	}
	switch {
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("base URL: scheme %.20q, want https", u.Scheme)
	case u.User != nil:
		return nil, fmt.Errorf("base URL of %s: holds a user name or password; give the key by variable or file", u.Host)
	case u.RawQuery != "" || u.ForceQuery:
		return nil, fmt.Errorf("base URL of %s: holds a ?query; keys belong in a variable or file, other parameters in headers", u.Host)
	case u.Fragment != "" || strings.HasSuffix(raw, "#"):
		return nil, fmt.Errorf("base URL of %s: holds a #fragment", u.Host)
	case u.Scheme == "http" && !allowPlain && !loopback(u.Hostname()):
		return nil, fmt.Errorf("base URL of %s: %w", u.Host, ErrPlainHTTP)
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// loopback reports that a host is this machine: localhost or its addresses.
func loopback(host string) bool {
	if h := strings.ToLower(strings.TrimSuffix(host, ".")); h == "localhost" || strings.HasSuffix(h, ".localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}
