package awstest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// These are the defaults, which a test may change.
const (
	Account   = "123456789012"
	Region    = "eu-central-1"
	AccessKey = "AKIATULLETEST0000001"
	SecretKey = "not-a-secret"
)

// Server serves the APIs of AWS for all accounts and regions of a test.
type Server struct {
	// URL is the endpoint of every service.
	URL string

	http   *http.Server
	closed context.Context
	close  context.CancelFunc

	mu       sync.Mutex
	settings Settings
	keys     map[string]*Key
	accounts map[place]*account
	faults   []*fault
	buckets  map[bucketKey]*bucket
	record   record
	ahead    time.Duration // what Advance added to the clock
	requests uint64
	changed  chan struct{} // closed and replaced after each call
}

// place is where an account's objects live.
type place struct{ account, region string }

// New returns a Server that ends with the test.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Start returns a Server that listens on an address.
func Start(address string) (*Server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	s := &Server{
		URL: "http://" + l.Addr().String(), settings: defaults(),
		keys: make(map[string]*Key), accounts: make(map[place]*account), buckets: make(map[bucketKey]*bucket),
		record: record{counts: make(map[string]int)}, changed: make(chan struct{}),
	}
	s.closed, s.close = context.WithCancel(context.Background())
	s.keys[AccessKey] = &Key{ID: AccessKey, Secret: SecretKey, Account: Account, User: "tulle"}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go s.http.Serve(l)
	return s, nil
}

// Close ends the server, and all hanging calls.
func (s *Server) Close() {
	s.close()
	s.http.Close()
}

// Env returns the environment with which an SDK uses the server.
func (s *Server) Env() []string {
	var env []string
	for _, v := range Environment(s.URL) {
		env = append(env, v[0]+"="+v[1])
	}
	return env
}

// Setenv sets the environment of the test so that an SDK uses the server.
func (s *Server) Setenv(t testing.TB) {
	t.Helper()
	for _, v := range Environment(s.URL) {
		t.Setenv(v[0], v[1])
	}
}

// Environment returns the variables with which an SDK uses a server at a URL, each a name and a
// value.
func Environment(url string) [][2]string {
	return [][2]string{
		{"AWS_ENDPOINT_URL", url}, {"AWS_ACCESS_KEY_ID", AccessKey}, {"AWS_SECRET_ACCESS_KEY", SecretKey},
		{"AWS_REGION", Region}, {"AWS_EC2_METADATA_DISABLED", "true"}, {"AWS_SESSION_TOKEN", ""}, {"AWS_PROFILE", ""},
		{"AWS_CONFIG_FILE", "/dev/null"}, {"AWS_SHARED_CREDENTIALS_FILE", "/dev/null"}, {"AWS_ENDPOINT_URL_EC2", ""}, {"AWS_CA_BUNDLE", ""},
	}
}

// Set changes the settings while no call runs.
func (s *Server) Set(change func(*Settings)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.settings)
	clear(s.buckets)
}

// SetKey adds or replaces an access key. Each account has its own objects.
func (s *Server) SetKey(k Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.User == "" {
		k.User = "tulle"
	}
	if k.Account == "" {
		k.Account = Account
	}
	s.keys[k.ID] = &k
}

// ChangeKey changes the access key that Env returns.
func (s *Server) ChangeKey(change func(*Key)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s.keys[AccessKey])
}

// Advance moves the server's clock, and runs the events that become due.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	for _, a := range s.accounts {
		a.settle(s.now())
	}
}

// Now returns the server's time.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// account returns the objects of an account in a region, as of now.
func (s *Server) account(at place) *account {
	a := s.accounts[at]
	if a == nil {
		a = newAccount(s, at)
		s.accounts[at] = a
	}
	a.settle(s.now())
	return a
}

// Do calls an action with parameters, each name followed by its value, as the account of
// Env, without authentication, faults and limits. It does not count the call, and returns the
// XML.
func (s *Server) Do(action string, parameters ...string) (string, error) {
	body := ""
	for i := 0; i+1 < len(parameters); i += 2 {
		body += escape(parameters[i]) + "=" + escape(parameters[i+1]) + "&"
	}
	f, wrong := parseForm(body + "Action=" + action)
	if wrong != nil {
		return "", wrong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, service := range []string{ec2Service, elbService, stsService, quotasService} {
		o := operation{service, action}
		if a, ok := actions[o]; ok {
			text, err := s.run(o, a, place{Account, Region}, s.keys[AccessKey], f)
			return string(text), err
		}
	}
	return "", fmt.Errorf("there is no action %s", action)
}

// must calls an action, and panics if it fails: the test is wrong then.
func (s *Server) must(action string, parameters ...string) string {
	text, err := s.Do(action, parameters...)
	if err != nil {
		panic(fmt.Sprintf("awstest: %s %q: %v", action, parameters, err))
	}
	return text
}
