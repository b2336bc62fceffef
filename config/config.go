package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/artifacts"
	"github.com/holdfast-run/holdfast/notifications"
	"github.com/holdfast-run/holdfast/outbound"
	"github.com/holdfast-run/holdfast/policies"
	"github.com/holdfast-run/holdfast/recovery"
	"github.com/holdfast-run/holdfast/runs"
	"github.com/holdfast-run/holdfast/state"
)

// Storage is what every command that touches data needs.
type Storage struct {
	DatabaseURL string
	Keyring     string // path of the key ring file
	S3          artifacts.S3Config
}

// Server is what `holdfast server` needs.
type Server struct {
	Storage
	Listen  string // host:port
	Address string // https URL under which clients reach the server, without a path
	TLSCert string // path; with TLSKey empty when a proxy in front speaks TLS
	TLSKey  string
	// TrustedProxies are the networks of proxies that say truly where a request comes from.
	TrustedProxies []netip.Prefix
	MetricsListen  string        // host:port of the metrics; empty serves none
	ShutdownDelay  time.Duration // how long a server that was told to stop still takes new requests
	DrainTimeout   time.Duration // how long requests at hand may take to finish after that
	Limits         Limits
	Outbound       outbound.Settings   // how addresses that users gave are called
	Mail           *notifications.Mail // nil when no mail server was named
}

// Limits bound runs, states and step-ups; DefaultLimits gives them.
type Limits struct {
	Runs       runs.Settings
	StateBytes int64         // of one state
	StepUp     time.Duration // how long a step-up serves
	Recovery   recovery.Settings
	Policies   policies.Limits
	Requests   int // a second, of one token at one server; 0 is no limit
}

// DefaultLimits are those of a server that is told nothing else.
func DefaultLimits() Limits {
	return Limits{Runs: runs.Defaults(), StateBytes: state.DefaultUploadLimit, StepUp: accounts.DefaultStepUpWindow, Recovery: recovery.Defaults(), Policies: policies.DefaultLimits()}
}

// Host gives host and port of the public address.
func (s Server) Host() string { return strings.TrimPrefix(s.Address, "https://") }

// LoadStorage reads the storage part. All missing names are reported at once.
func LoadStorage() (Storage, error) {
	var r reader
	s := r.storage()
	return s, r.problem()
}

// LoadServer reads everything a server needs.
func LoadServer() (Server, error) {
	var r reader
	s := Server{
		Storage: r.storage(), Listen: r.required("HOLDFAST_LISTEN"), Address: strings.TrimSuffix(r.required("HOLDFAST_ADDRESS"), "/"),
		TLSCert: os.Getenv("HOLDFAST_TLS_CERT"), TLSKey: os.Getenv("HOLDFAST_TLS_KEY"),
		TrustedProxies: r.networks("HOLDFAST_TRUSTED_PROXIES"),
		MetricsListen:  os.Getenv("HOLDFAST_METRICS_LISTEN"), ShutdownDelay: r.duration("HOLDFAST_SHUTDOWN_DELAY", 0), DrainTimeout: r.duration("HOLDFAST_DRAIN_TIMEOUT", 30*time.Second), Limits: r.limits(),
		Outbound: outbound.Settings{Allow: r.networks("HOLDFAST_OUTBOUND_ALLOW"), Proxy: r.proxy("HOLDFAST_OUTBOUND_PROXY")}, Mail: r.mail(),
	}
	if u, err := url.Parse(s.Address); s.Address != "" && (err != nil || u.Hostname() == "" || s.Address != "https://"+u.Host) {
		r.wrong("HOLDFAST_ADDRESS must be an https:// address without a path, such as https://holdfast.example.com, because tofu speaks to no other")
	}
	if (s.TLSCert == "") != (s.TLSKey == "") {
		r.wrong("HOLDFAST_TLS_CERT and HOLDFAST_TLS_KEY belong together")
	}
	return s, r.problem()
}

type reader struct{ problems []string }

func (r *reader) storage() Storage {
	s := Storage{
		DatabaseURL: r.required("HOLDFAST_DATABASE_URL"), Keyring: r.required("HOLDFAST_KEYRING"),
		S3: artifacts.S3Config{
			Endpoint: r.required("HOLDFAST_S3_ENDPOINT"), Bucket: r.required("HOLDFAST_S3_BUCKET"), Region: os.Getenv("HOLDFAST_S3_REGION"),
			AccessKeyID: r.required("HOLDFAST_S3_ACCESS_KEY_ID"), SecretAccessKey: r.required("HOLDFAST_S3_SECRET_ACCESS_KEY"),
			SessionToken: os.Getenv("HOLDFAST_S3_SESSION_TOKEN"), Checksum: os.Getenv("HOLDFAST_S3_CHECKSUM"),
		},
	}
	if s.S3.Region == "" {
		s.S3.Region = "us-east-1"
	}
	return s
}

func (r *reader) required(name string) string {
	value := os.Getenv(name)
	if value == "" {
		r.wrong(name + " is not set")
	}
	return value
}

// limits reads them, each with its default.
func (r *reader) limits() Limits {
	l := DefaultLimits()
	s := &l.Runs
	s.AssignmentExpiry = r.duration("HOLDFAST_ASSIGNMENT_EXPIRY", s.AssignmentExpiry)
	s.Heartbeat = r.duration("HOLDFAST_HEARTBEAT", s.Heartbeat)
	s.PlanLiveness = r.duration("HOLDFAST_PLAN_LIVENESS", s.PlanLiveness)
	s.OutageAllowance = r.duration("HOLDFAST_OUTAGE_ALLOWANCE", s.OutageAllowance)
	s.ApplyLiveness = r.duration("HOLDFAST_APPLY_LIVENESS", s.ApplyLiveness)
	s.ApprovalLifetime = r.duration("HOLDFAST_APPROVAL_TTL", s.ApprovalLifetime)
	s.RunTTL = r.duration("HOLDFAST_RUN_TTL", s.RunTTL)
	s.InterruptGrace = r.duration("HOLDFAST_INTERRUPT_GRACE", s.InterruptGrace)
	s.ForceCancelGrace = r.duration("HOLDFAST_FORCE_CANCEL_GRACE", s.ForceCancelGrace)
	s.TaskProgress = r.duration("HOLDFAST_RUN_TASK_PROGRESS", s.TaskProgress)
	s.TaskTTL = r.duration("HOLDFAST_RUN_TASK_TTL", s.TaskTTL)
	s.LogLimit = r.bytes("HOLDFAST_LOG_LIMIT", s.LogLimit)
	s.LaunchLimit = r.bytes("HOLDFAST_LAUNCH_LIMIT", s.LaunchLimit)
	if err := s.Check(); err != nil {
		r.wrong(err.Error())
	}
	l.StepUp = r.duration("HOLDFAST_STEP_UP_WINDOW", l.StepUp)
	if l.StepUp < accounts.MinStepUpWindow || l.StepUp > accounts.MaxStepUpWindow || l.StepUp%time.Second != 0 {
		r.wrong("HOLDFAST_STEP_UP_WINDOW must be from 1m to 1h, in whole seconds")
	}
	l.Recovery.Lease = r.duration("HOLDFAST_RECOVERY_LEASE_TTL", l.Recovery.Lease)
	if l.Recovery.Lease <= 0 {
		r.wrong("HOLDFAST_RECOVERY_LEASE_TTL must be longer than nothing")
	}
	l.StateBytes = r.bytes("HOLDFAST_STATE_LIMIT", l.StateBytes)
	l.Requests = r.count("HOLDFAST_API_RATE_LIMIT", l.Requests)
	l.Policies.Memory = r.bytes("HOLDFAST_POLICY_MEMORY", l.Policies.Memory)
	l.Policies.Time = r.duration("HOLDFAST_POLICY_TIME", l.Policies.Time)
	l.Policies.Budget = r.duration("HOLDFAST_POLICY_BUDGET", l.Policies.Budget)
	if err := l.Policies.Check(); err != nil {
		r.wrong(err.Error())
	}
	return l
}

// duration reads a time such as 90s, 10m or 168h.
func (r *reader) duration(name string, otherwise time.Duration) time.Duration {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.wrong(name + " must be a duration, such as 90s, 10m or 168h")
		return otherwise
	}
	return d
}

// count reads how many of something there may be, with 0 for no limit.
func (r *reader) count(name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1_000_000 {
		r.wrong(name + " must be a number, such as 30, or 0 for no limit")
		return otherwise
	}
	return n
}

// bytes reads a count of bytes.
func (r *reader) bytes(name string, otherwise int64) int64 {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n <= 0 {
		r.wrong(name + " must be a number of bytes, such as 10485760")
		return otherwise
	}
	return n
}

// networks reads a list of addresses and CIDR networks, separated by commas.
func (r *reader) networks(name string) (networks []netip.Prefix) {
	for entry := range strings.SplitSeq(os.Getenv(name), ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		if address, err := netip.ParseAddr(entry); err == nil {
			networks = append(networks, netip.PrefixFrom(address, address.BitLen()))
			continue
		}
		network, err := netip.ParsePrefix(entry)
		if err != nil {
			r.wrong(name + " must list addresses or networks, such as 10.0.0.7, 192.0.2.0/24")
			return nil
		}
		networks = append(networks, network)
	}
	return networks
}

// proxy reads the address of an HTTP proxy, or nil.
func (r *reader) proxy(name string) *url.URL {
	text := os.Getenv(name)
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		r.wrong(name + " must be the http:// or https:// address of a proxy")
		return nil
	}
	return u
}

// mail reads the mail server and the sender, or nil.
func (r *reader) mail() *notifications.Mail {
	server, from := os.Getenv("HOLDFAST_SMTP_URL"), os.Getenv("HOLDFAST_SMTP_FROM")
	if server == "" && from == "" {
		return nil
	}
	m, err := notifications.ParseMail(server, from)
	if err != nil {
		r.wrong("HOLDFAST_SMTP_URL and HOLDFAST_SMTP_FROM belong together: " + err.Error())
	}
	return m
}

func (r *reader) wrong(text string) { r.problems = append(r.problems, text) }

func (r *reader) problem() error {
	if len(r.problems) == 0 {
		return nil
	}
	return fmt.Errorf("the environment is incomplete (docs/configuration.md explains each name): %s", strings.Join(r.problems, "; "))
}
