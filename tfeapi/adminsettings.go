package tfeapi

import (
	"strings"
	"time"

	"github.com/holdfast-run/holdfast/accounts"
	"github.com/holdfast-run/holdfast/fault"
	"github.com/holdfast-run/holdfast/site"
)

// The settings of the site, for site admins. One that does nothing here is shown as off, and
// is refused when somebody turns it on.

// generalSettingsView is what holds for all organizations.
type generalSettingsView struct {
	ID                            string `jsonapi:"primary,general-settings"`
	LimitUserOrganizationCreation bool   `jsonapi:"attr,limit-user-organization-creation"`
	APIRateLimitingEnabled        bool   `jsonapi:"attr,api-rate-limiting-enabled"`
	APIRateLimit                  int    `jsonapi:"attr,api-rate-limit"`
	SendPassingStatuses           bool   `jsonapi:"attr,send-passing-statuses-for-untriggered-speculative-plans"`
	SpeculativePlansOnForks       bool   `jsonapi:"attr,allow-speculative-plans-on-pull-requests-from-forks"`
	RequireTwoFactorForAdmins     bool   `jsonapi:"attr,require-two-factor-for-admins"`
	FairRunQueuing                bool   `jsonapi:"attr,fair-run-queuing-enabled"`
	LimitOrganizationsPerUser     bool   `jsonapi:"attr,limit-organizations-per-user"`
	OrganizationsPerUser          int    `jsonapi:"attr,default-organizations-per-user-ceiling"`
	LimitWorkspaces               bool   `jsonapi:"attr,limit-workspaces-per-organization"`
	WorkspacesPerOrganization     int    `jsonapi:"attr,default-workspaces-per-organization-ceiling"`
	WorkerApplyTimeout            string `jsonapi:"attr,terraform-build-worker-apply-timeout"`
	WorkerPlanTimeout             string `jsonapi:"attr,terraform-build-worker-plan-timeout"`
	ApplyTimeout                  string `jsonapi:"attr,apply-timeout"`
	PlanTimeout                   string `jsonapi:"attr,plan-timeout"`
	DefaultRemoteStateAccess      bool   `jsonapi:"attr,default-remote-state-access"`
}

func (*generalSettingsView) relations() relations { return nil }

// shortDuration writes a time as it would be said: 2h, 30m, 1h30m.
func shortDuration(seconds int) string {
	text := (time.Duration(seconds) * time.Second).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func generalAnswer(set site.Settings, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	plan, apply := shortDuration(set.PlanTimeoutSeconds), shortDuration(set.ApplyTimeoutSeconds)
	return ok(&generalSettingsView{
		ID: "general", LimitUserOrganizationCreation: set.LimitUserOrganizationCreation, APIRateLimitingEnabled: set.APIRateLimitingEnabled, APIRateLimit: set.APIRateLimit,
		FairRunQueuing: true, LimitOrganizationsPerUser: set.LimitOrganizationsPerUser, OrganizationsPerUser: set.OrganizationsPerUser,
		LimitWorkspaces: set.LimitWorkspacesPerOrganization, WorkspacesPerOrganization: set.WorkspacesPerOrganization,
		WorkerApplyTimeout: apply, WorkerPlanTimeout: plan, ApplyTimeout: apply, PlanTimeout: plan, DefaultRemoteStateAccess: set.DefaultRemoteStateAccess,
	}), nil
}

func (s *server) readGeneralSettings(r *request) (answer, error) {
	return generalAnswer(s.Site.Settings(r.ctx, r.actor))
}

// updateGeneralSettings takes the document without a type, too: so clients send it.
func (s *server) updateGeneralSettings(r *request) (answer, error) {
	type attributes struct {
		LimitUserOrganizationCreation Opt[bool]   `json:"limit-user-organization-creation"`
		APIRateLimitingEnabled        Opt[bool]   `json:"api-rate-limiting-enabled"`
		APIRateLimit                  Opt[int]    `json:"api-rate-limit"`
		SendPassingStatuses           Opt[bool]   `json:"send-passing-statuses-for-untriggered-speculative-plans"`
		SpeculativePlansOnForks       Opt[bool]   `json:"allow-speculative-plans-on-pull-requests-from-forks"`
		RequireTwoFactorForAdmins     Opt[bool]   `json:"require-two-factor-for-admins"`
		FairRunQueuing                Opt[bool]   `json:"fair-run-queuing-enabled"`
		LimitOrganizationsPerUser     Opt[bool]   `json:"limit-organizations-per-user"`
		OrganizationsPerUser          Opt[int]    `json:"default-organizations-per-user-ceiling"`
		LimitWorkspaces               Opt[bool]   `json:"limit-workspaces-per-organization"`
		WorkspacesPerOrganization     Opt[int]    `json:"default-workspaces-per-organization-ceiling"`
		ApplyTimeout                  Opt[string] `json:"apply-timeout"`
		PlanTimeout                   Opt[string] `json:"plan-timeout"`
		DefaultRemoteStateAccess      Opt[bool]   `json:"default-remote-state-access"`
	}
	in, err := adminInput[attributes](r)
	if err != nil {
		return answer{}, err
	}
	for name, wanted := range map[string]bool{
		"send-passing-statuses-for-untriggered-speculative-plans": in.SendPassingStatuses.Or(false), "allow-speculative-plans-on-pull-requests-from-forks": in.SpeculativePlansOnForks.Or(false),
	} {
		if wanted {
			return answer{}, cannotTurnOn(name, "There are no connections to VCS hosts on this server")
		}
	}
	if in.RequireTwoFactorForAdmins.Or(false) {
		return answer{}, cannotTurnOn("require-two-factor-for-admins", "A second factor is asked for where it counts, at each act that needs a step-up")
	}
	if !in.FairRunQueuing.Or(true) {
		return answer{}, accounts.Invalid("fair-run-queuing-enabled", "The queue always goes round the organizations on this server")
	}
	plan, err := durationOf("plan-timeout", in.PlanTimeout)
	if err != nil {
		return answer{}, err
	}
	apply, err := durationOf("apply-timeout", in.ApplyTimeout)
	if err != nil {
		return answer{}, err
	}
	return generalAnswer(s.Site.Update(r.ctx, r.actor, site.SettingsChanges{
		LimitUserOrganizationCreation: in.LimitUserOrganizationCreation.Pointer(), APIRateLimitingEnabled: in.APIRateLimitingEnabled.Pointer(), APIRateLimit: in.APIRateLimit.Pointer(),
		DefaultRemoteStateAccess: in.DefaultRemoteStateAccess.Pointer(), LimitOrganizationsPerUser: in.LimitOrganizationsPerUser.Pointer(), OrganizationsPerUser: in.OrganizationsPerUser.Pointer(),
		LimitWorkspacesPerOrganization: in.LimitWorkspaces.Pointer(), WorkspacesPerOrganization: in.WorkspacesPerOrganization.Pointer(), PlanTimeout: plan, ApplyTimeout: apply,
	}))
}

// adminInput reads the attributes of a request of a site admin.
func adminInput[A any](r *request) (attributes A, err error) {
	if err := siteAdmin(r); err != nil {
		return attributes, err
	}
	body, err := r.body()
	if err != nil {
		return attributes, err
	}
	in, err := decodeUntyped[A](body)
	return in.Attributes, err
}

// cannotTurnOn is the refusal of a setting that would do nothing.
func cannotTurnOn(attribute, why string) error {
	return fault.New(fault.Invalid, "setting_not_available", "%s, so this cannot be turned on.", why).At("/data/attributes/" + attribute)
}

// customizationView is what the pages show beside their own text.
type customizationView struct {
	ID           string `jsonapi:"primary,customization-settings"`
	SupportEmail string `jsonapi:"attr,support-email-address"`
	LoginHelp    string `jsonapi:"attr,login-help"`
	Footer       string `jsonapi:"attr,footer"`
	Error        string `jsonapi:"attr,error"`
	NewUser      string `jsonapi:"attr,new-user"`
}

func (*customizationView) relations() relations { return nil }

func customizationAnswer(set site.Settings, err error) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return ok(&customizationView{ID: "customization", SupportEmail: set.SupportEmail, LoginHelp: set.LoginHelp, Footer: set.Footer, Error: set.ErrorText, NewUser: set.NewUser}), nil
}

func (s *server) readCustomization(r *request) (answer, error) {
	return customizationAnswer(s.Site.Settings(r.ctx, r.actor))
}

func (s *server) updateCustomization(r *request) (answer, error) {
	in, err := adminInput[struct {
		SupportEmail Opt[string] `json:"support-email-address"`
		LoginHelp    Opt[string] `json:"login-help"`
		Footer       Opt[string] `json:"footer"`
		Error        Opt[string] `json:"error"`
		NewUser      Opt[string] `json:"new-user"`
	}](r)
	if err != nil {
		return answer{}, err
	}
	return customizationAnswer(s.Site.Update(r.ctx, r.actor, site.SettingsChanges{
		SupportEmail: textOrEmpty(in.SupportEmail), LoginHelp: textOrEmpty(in.LoginHelp), Footer: textOrEmpty(in.Footer), ErrorText: textOrEmpty(in.Error), NewUser: textOrEmpty(in.NewUser),
	}))
}

// costSettingsView is off: estimates are made by a command of the runner, which has the
// credentials it needs.
type costSettingsView struct {
	ID                        string `jsonapi:"primary,cost-estimation-settings"`
	Enabled                   bool   `jsonapi:"attr,enabled"`
	AWSEnabled                bool   `jsonapi:"attr,aws-enabled"`
	AWSInstanceProfileEnabled bool   `jsonapi:"attr,aws-instance-profile-enabled"`
	GCPEnabled                bool   `jsonapi:"attr,gcp-enabled"`
	AzureEnabled              bool   `jsonapi:"attr,azure-enabled"`
}

func (*costSettingsView) relations() relations { return nil }

func (s *server) readCostSettings(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	return ok(&costSettingsView{ID: "cost-estimation"}), nil
}

func (s *server) updateCostSettings(r *request) (answer, error) {
	in, err := adminInput[struct {
		Enabled Opt[bool] `json:"enabled"`
	}](r)
	if err != nil {
		return answer{}, err
	}
	if in.Enabled.Or(false) {
		return answer{}, cannotTurnOn("enabled", "Costs are estimated by the command that a runner was started with, and nothing is kept for it here")
	}
	return s.readCostSettings(r)
}

// smtpView says how the server sends mail. Its operator decides that.
type smtpView struct {
	ID       string `jsonapi:"primary,smtp-settings"`
	Enabled  bool   `jsonapi:"attr,enabled"`
	Host     string `jsonapi:"attr,host"`
	Port     int    `jsonapi:"attr,port"`
	Sender   string `jsonapi:"attr,sender"`
	Auth     string `jsonapi:"attr,auth"`
	Username string `jsonapi:"attr,username"`
}

func (*smtpView) relations() relations { return nil }

func (s *server) readSMTP(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	v := &smtpView{ID: "smtp", Auth: "none"}
	if s.Mail != nil {
		m := s.Mail.Shown()
		v.Enabled, v.Host, v.Port, v.Sender, v.Username = true, m.Host, m.Port, m.Sender, m.User
		if m.User != "" {
			v.Auth = "plain"
		}
	}
	return ok(v), nil
}

// updateSMTP keeps nothing: it takes only what is so already.
func (s *server) updateSMTP(r *request) (answer, error) {
	in, err := adminInput[struct {
		Enabled Opt[bool]   `json:"enabled"`
		Auth    Opt[string] `json:"auth"`
	}](r)
	if err != nil {
		return answer{}, err
	}
	switch in.Auth.Or("none") {
	case "none", "plain", "login":
	default:
		return answer{}, accounts.Invalid("auth", "Auth must be none, plain or login")
	}
	if on := s.Mail != nil; in.Enabled.Or(on) != on {
		return answer{}, fault.New(fault.Invalid, "setting_not_available", "The mail server is named by the operator of this server, in HOLDFAST_SMTP_URL and HOLDFAST_SMTP_FROM.").At("/data/attributes/enabled")
	}
	return s.readSMTP(r)
}

// twilioView is off: no code is sent by SMS.
type twilioView struct {
	ID         string `jsonapi:"primary,twilio-settings"`
	Enabled    bool   `jsonapi:"attr,enabled"`
	AccountSid string `jsonapi:"attr,account-sid"`
	FromNumber string `jsonapi:"attr,from-number"`
}

func (*twilioView) relations() relations { return nil }

const noSMS = "Second factors on this server are codes of an app, and nothing is sent by SMS"

func (s *server) readTwilio(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	return ok(&twilioView{ID: "twilio"}), nil
}

func (s *server) updateTwilio(r *request) (answer, error) {
	in, err := adminInput[struct {
		Enabled Opt[bool] `json:"enabled"`
	}](r)
	if err != nil {
		return answer{}, err
	}
	if in.Enabled.Or(false) {
		return answer{}, cannotTurnOn("enabled", noSMS)
	}
	return s.readTwilio(r)
}

func (s *server) verifyTwilio(r *request) (answer, error) {
	if err := siteAdmin(r); err != nil {
		return answer{}, err
	}
	return answer{}, fault.New(fault.Invalid, "setting_not_available", "%s.", noSMS)
}
