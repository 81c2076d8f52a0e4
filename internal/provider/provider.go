// Package provider is the provider that Terraform starts. Its configuration goes in, and the connection that resources
// and queries share comes out. Call NewServer.
//
// What there is stands in the packages below: resource, query (data sources and list resources), action and function.
// They share connection, tfvalue (values of attributes), importid, and diagnose, which has the texts of errors and
// warnings. None of them decides anything about topologies: internal/delay expands a model, and internal/engine brings
// that onto a broker.
package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strconv"

	"github.com/hashicorp/terraform-plugin-framework-validators/int64validator"
	"github.com/hashicorp/terraform-plugin-framework-validators/mapvalidator"
	"github.com/hashicorp/terraform-plugin-framework-validators/stringvalidator"
	"github.com/hashicorp/terraform-plugin-framework/action"
	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/function"
	"github.com/hashicorp/terraform-plugin-framework/list"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/schema/validator"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/delay"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/engine"
	actions "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/action"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/connection"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/diagnose"
	functions "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/function"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/query"
	resources "github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/resource"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/provider/tfvalue"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/rabbit"
)

var (
	_ provider.ProviderWithActions       = (*rabbitmqdelay)(nil)
	_ provider.ProviderWithFunctions     = (*rabbitmqdelay)(nil)
	_ provider.ProviderWithListResources = (*rabbitmqdelay)(nil)
)

// NewServer returns the provider in the given version, as the plugin protocol has it. Any number of them may be in use
// at a time.
func NewServer(version string, options ...Option) tfprotov6.ProviderServer {
	p := &rabbitmqdelay{version: version}
	for _, option := range options {
		option(p)
	}
	return providerserver.NewProtocol6(p)()
}

// An Option is nothing that a user can choose.
type Option func(*rabbitmqdelay)

// BindAtOnce does not wait until new queues are durable. It is for tests of all else.
func BindAtOnce(p *rabbitmqdelay) { p.bindsAtOnce = true }

type rabbitmqdelay struct {
	version     string
	bindsAtOnce bool // see BindAtOnce
}

type providerModel struct {
	Endpoint            types.String     `tfsdk:"endpoint"`
	Username            types.String     `tfsdk:"username"`
	Password            types.String     `tfsdk:"password"`
	AMQPURI             types.String     `tfsdk:"amqp_uri"`
	CACertFile          types.String     `tfsdk:"cacert_file"`
	CACertPEM           types.String     `tfsdk:"cacert_pem"`
	ClientCertFile      types.String     `tfsdk:"clientcert_file"`
	ClientKeyFile       types.String     `tfsdk:"clientkey_file"`
	Insecure            types.Bool       `tfsdk:"insecure"`
	Proxy               types.String     `tfsdk:"proxy"`
	Headers             types.Map        `tfsdk:"headers"`
	RequestTimeout      tfvalue.Duration `tfsdk:"request_timeout"`
	RetryTimeout        tfvalue.Duration `tfsdk:"retry_timeout"`
	MaxParallelRequests types.Int64      `tfsdk:"max_parallel_requests"`
}

const defaultEndpoint = "http://127.0.0.1:15672"

func (p *rabbitmqdelay) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName = "rabbitmqdelay"
	resp.Version = p.version
}

func (p *rabbitmqdelay) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		MarkdownDescription: "Declares delay cascades on RabbitMQ 3.10 or later, through the management HTTP API. A " +
			"cascade delays messages without a plugin, on one node or in a cluster, with quorum or classic queues.",
		Attributes: map[string]schema.Attribute{
			"endpoint": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "Base URL of the management API, without `/api`. A path prefix and a trailing " +
					"`/` both work. Default: the environment variable " +
					"`RABBITMQ_ENDPOINT`, else `" + defaultEndpoint + "`.",
				Validators: tfvalue.NotEmpty,
			},
			"username": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "User name. The user needs the tag `management` and some permissions: see the " +
					"guide to permissions. Default: the environment variable `RABBITMQ_USERNAME`, else `guest` if no " +
					"password is given either and the endpoint is on the loopback interface.",
				Validators: tfvalue.NotEmpty,
			},
			"password": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "Password. Default: the environment variable `RABBITMQ_PASSWORD`, else `guest` " +
					"if no user name is given either and the endpoint is on the loopback interface. An OAuth 2.0 " +
					"token can be the password, too.",
				Validators: tfvalue.NotEmpty,
			},
			"amqp_uri": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "AMQP URI, such as `amqps://user:password@host:5671`. Only AMQP says exactly " +
					"whether a queue is empty. Default: the environment variable `RABBITMQ_AMQP_URI`, else derived " +
					"from the endpoint's host. A given URI has to work: otherwise a plan warns, and the provider " +
					"refuses a destroy, replacement or rebuild. If a derived URI cannot be reached, resources do " +
					"everything through the management API. The data source `rabbitmqdelay_probe` and the action " +
					"`rabbitmqdelay_replay` need AMQP.",
				Validators: tfvalue.NotEmpty,
			},
			"cacert_file": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "PEM file with the certificates of the authorities that may have signed the " +
					"broker's certificate. Default: the environment variable `RABBITMQ_CACERT`, else the authorities " +
					"of the operating system.",
				Validators: append(tfvalue.NotEmpty, stringvalidator.ConflictsWith(path.MatchRoot("cacert_pem"))),
			},
			"cacert_pem": schema.StringAttribute{
				Optional:            true,
				MarkdownDescription: "The content of `cacert_file`, as text.",
				Validators:          tfvalue.NotEmpty,
			},
			"clientcert_file": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "File with the client certificate in PEM. Default: the environment variable " +
					"`RABBITMQ_CLIENTCERT`.",
				Validators: tfvalue.NotEmpty,
			},
			"clientkey_file": schema.StringAttribute{
				Optional: true,
				MarkdownDescription: "File with the key of the client certificate in PEM, not encrypted. Default: " +
					"the environment variable `RABBITMQ_CLIENTKEY`.",
				Validators: tfvalue.NotEmpty,
			},
			"insecure": schema.BoolAttribute{
				Optional: true,
				MarkdownDescription: "Do not verify the broker's certificate. Every plan and every apply then warns. " +
					"Default: the environment variable `RABBITMQ_INSECURE`, else `false`.",
			},
			"proxy": schema.StringAttribute{
				Optional: true, Sensitive: true,
				MarkdownDescription: "URL of the HTTP or SOCKS5 proxy to the management API; AMQP does not use it. " +
					"Default: the environment variable `RABBITMQ_PROXY`, else `HTTPS_PROXY`, `HTTP_PROXY` and " +
					"`NO_PROXY`.",
				Validators: tfvalue.NotEmpty,
			},
			"headers": schema.MapAttribute{
				Optional: true, Sensitive: true, ElementType: types.StringType,
				MarkdownDescription: "Further HTTP headers for every request, for a gateway in front of the " +
					"management API. The provider refuses the header `Authorization`, and makes this header from " +
					"`username` and `password`.",
				Validators: []validator.Map{mapvalidator.NoNullValues()},
			},
			"request_timeout": schema.StringAttribute{
				Optional: true, CustomType: tfvalue.DurationType{},
				MarkdownDescription: fmt.Sprintf("How long one try of a request may take. Default: `%s`.",
					delay.DurationText(rabbit.DefaultRequestTimeout)),
			},
			"retry_timeout": schema.StringAttribute{
				Optional: true, CustomType: tfvalue.DurationType{},
				MarkdownDescription: "How long the provider tries a request again after a broken connection, a " +
					"timeout or a server error, such as while a broker restarts. All requests wait for the broker " +
					"together. With `0s`, the provider tries no request again. Default: `1m`.",
			},
			"max_parallel_requests": schema.Int64Attribute{
				CustomType: tfvalue.WholeNumber{}, Optional: true,
				MarkdownDescription: fmt.Sprintf("How many requests may be under way at once, for all resources of "+
					"this provider together. Default: `%d`.",
					rabbit.DefaultMaxParallelRequests),
				Validators: []validator.Int64{int64validator.Between(1, 1000)},
			},
		},
	}
}

func (p *rabbitmqdelay) Configure(
	ctx context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse,
) {
	var model providerModel
	assumed, unknown := assume(req.Config)
	known := len(unknown) == 0
	resp.Diagnostics.Append(assumed.Get(ctx, &model)...)
	if resp.Diagnostics.HasError() {
		return
	}
	if unknown["endpoint"] {
		model.Endpoint = types.StringValue(defaultEndpoint)
	}
	config, diags := model.brokerConfig(ctx)
	config.UserAgent = fmt.Sprintf("terraform-provider-rabbitmqdelay/%s (Terraform %s)", p.version,
		req.TerraformVersion)
	config.BindsAtOnce = p.bindsAtOnce
	client, err := rabbit.New(config)
	if err != nil {
		diags.Append(configDiagnostic(ctx, req.Config, err))
	}
	silent := unknown // and one error for each attribute
	for _, d := range diags {
		if on, ok := d.(diag.DiagnosticWithPath); ok {
			if silent[on.Path().String()] {
				continue
			}
			silent[on.Path().String()] = true
		}
		resp.Diagnostics.Append(d)
	}
	if config.Insecure && !resp.Diagnostics.HasError() {
		resp.Diagnostics.Append(insecureWarning(model.Insecure))
	}
	shared := &connection.Connection{Ledger: &connection.Ledger{}}
	if known {
		shared.Client, shared.Engine = client, engine.New(client)
	}
	resp.ResourceData = shared
	resp.DataSourceData = shared
	resp.ListResourceData = shared
	resp.ActionData = shared
}

// assume puts null in the place of values that are not known, so that the others can be checked. Unknown are the names
// of these attributes.
func assume(config tfsdk.Config) (assumed tfsdk.Config, unknown map[string]bool) {
	given, values := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	unknown = map[string]bool{}
	_ = config.Raw.As(&given) // which is an object
	for name, value := range given {
		if values[name] = value; !value.IsFullyKnown() {
			unknown[name], values[name] = true, tftypes.NewValue(value.Type(), nil)
		}
	}
	if len(unknown) > 0 {
		config.Raw = tftypes.NewValue(config.Raw.Type(), values)
	}
	return config, unknown
}

// brokerConfig fills in the environment and the defaults. The client has those of numbers and times that are zero.
func (m providerModel) brokerConfig(ctx context.Context) (rabbit.Config, diag.Diagnostics) {
	var diags diag.Diagnostics
	config := rabbit.Config{
		Endpoint:            cmp.Or(textOf("endpoint", m.Endpoint), defaultEndpoint),
		Username:            textOf("username", m.Username),
		Password:            textOf("password", m.Password),
		AMQPURI:             textOf("amqp_uri", m.AMQPURI),
		Proxy:               textOf("proxy", m.Proxy),
		RetryTimeout:        rabbit.DefaultRetryTimeout,
		MaxParallelRequests: int(m.MaxParallelRequests.ValueInt64()),
	}
	if isLoopback(config.Endpoint) && config.Username == "" && config.Password == "" {
		config.Username, config.Password = "guest", "guest"
	}
	for _, credential := range []struct{ attribute, value string }{{"username", config.Username},
		{"password", config.Password}} {
		// Without a host nobody knows whether there is a default, and it is the endpoint that has to be mended.
		if credential.value == "" && hostIn(config.Endpoint) != "" {
			diags.Append(diagnose.ErrorOn(credential.attribute, "Missing "+credential.attribute,
				"Set the attribute or the environment variable %s. There is a default, guest, only where neither "+
					"user name nor password is given and the endpoint is on the loopback interface.",
				variables[credential.attribute]))
		}
	}
	config.Insecure = m.isInsecure(&diags)
	config.CACertPEM = []byte(m.CACertPEM.ValueString())
	if len(config.CACertPEM) == 0 {
		config.CACertPEM = readFile(&diags, "cacert_file", m.CACertFile)
	}
	config.ClientCertPEM = readFile(&diags, "clientcert_file", m.ClientCertFile)
	config.ClientKeyPEM = readFile(&diags, "clientkey_file", m.ClientKeyFile)
	if !m.Headers.IsNull() {
		diags.Append(m.Headers.ElementsAs(ctx, &config.Headers, false)...)
	}
	m.setTimeouts(&config, &diags)
	return config, diags
}

// textOf is the value of an attribute, or of the environment variable that stands in for it.
func textOf(attribute string, value types.String) string {
	if value.IsNull() {
		return os.Getenv(variables[attribute])
	}
	return value.ValueString()
}

// isInsecure asks the environment if the attribute is not given.
func (m providerModel) isInsecure(diags *diag.Diagnostics) bool {
	text := os.Getenv(variables["insecure"])
	if !m.Insecure.IsNull() || text == "" {
		return m.Insecure.ValueBool()
	}
	insecure, err := strconv.ParseBool(text)
	if err != nil {
		diags.Append(diagnose.ErrorOn("insecure", "Invalid environment variable",
			"RABBITMQ_INSECURE is %q; it has to be true or false.", text))
	}
	return insecure
}

func (m providerModel) setTimeouts(config *rabbit.Config, diags *diag.Diagnostics) {
	if !m.RequestTimeout.IsNull() {
		timeout := tfvalue.DurationOf(m.RequestTimeout)
		if timeout <= 0 {
			diags.Append(diagnose.ErrorOn("request_timeout", "Invalid request timeout",
				"request_timeout is %s; it has to be positive.", delay.DurationText(timeout)))
		}
		config.RequestTimeout = timeout
	}
	if !m.RetryTimeout.IsNull() {
		timeout := tfvalue.DurationOf(m.RetryTimeout)
		if timeout < 0 {
			diags.Append(diagnose.ErrorOn("retry_timeout", "Invalid retry timeout",
				"retry_timeout is %s; it must not be negative. To try nothing again, write 0s.",
				delay.DurationText(timeout)))
		}
		config.RetryTimeout = timeout
	}
}

// insecureWarning comes once for each plan and each apply, as these configure the provider.
func insecureWarning(attribute types.Bool) diag.Diagnostic {
	source, remove := "insecure", "remove insecure"
	if attribute.IsNull() {
		source, remove = "The environment variable "+variables["insecure"], "unset "+variables["insecure"]
	}
	return diagnose.WarningOn("insecure", "The broker's certificate is not verified",
		"%s is true. For HTTPS and for AMQP with TLS, nothing checks who has issued the certificate, for which host, "+
			"and until when it is valid. Whoever answers in the broker's place gets the user name and the password. "+
			"Give the certificate of the authority with cacert_file or cacert_pem, and %s.", source, remove)
}

func isLoopback(endpoint string) bool {
	host := hostIn(endpoint)
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// hostIn is empty where the endpoint is no URL.
func hostIn(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

func readFile(diags *diag.Diagnostics, attribute string, value types.String) []byte {
	name := textOf(attribute, value)
	if name == "" {
		return nil
	}
	content, err := os.ReadFile(name)
	if err == nil && len(content) == 0 {
		err = errors.New("the file is empty")
	}
	if err != nil {
		diags.Append(diagnose.ErrorOn(attribute, "Unreadable certificate or key file", "%s: %s", attribute, err))
	}
	return content
}

// configDiagnostic puts the error on the attribute, and says so if that is not where the value is from.
func configDiagnostic(ctx context.Context, config tfsdk.Config, err error) diag.Diagnostic {
	var wrong *rabbit.ConfigError
	if !errors.As(err, &wrong) {
		return diagnose.Error("Invalid provider configuration", "%s", err)
	}
	given := func(attribute string) bool {
		var value attr.Value
		return !config.GetAttribute(ctx, path.Root(attribute), &value).HasError() && !value.IsNull()
	}
	attribute := wrong.Attribute
	if attribute == "cacert_pem" && !given(attribute) {
		attribute = "cacert_file"
	}
	detail := fmt.Sprintf("%s %s.", attribute, wrong.Message)
	if variable := variables[attribute]; !given(attribute) && os.Getenv(variable) != "" {
		detail += fmt.Sprintf(" The value is that of the environment variable %s.", variable)
	}
	return diagnose.ErrorOn(attribute, "Invalid "+attribute, "%s", detail)
}

// variables are the environment variables that stand in for attributes.
var variables = map[string]string{
	"endpoint": "RABBITMQ_ENDPOINT", "username": "RABBITMQ_USERNAME", "password": "RABBITMQ_PASSWORD",
	"amqp_uri":    "RABBITMQ_AMQP_URI",
	"cacert_file": "RABBITMQ_CACERT", "clientcert_file": "RABBITMQ_CLIENTCERT", "clientkey_file": "RABBITMQ_CLIENTKEY",
	"insecure": "RABBITMQ_INSECURE", "proxy": "RABBITMQ_PROXY",
}

func (p *rabbitmqdelay) Resources(context.Context) []func() resource.Resource { return resources.All() }

func (p *rabbitmqdelay) DataSources(context.Context) []func() datasource.DataSource {
	return query.DataSources()
}

func (p *rabbitmqdelay) ListResources(context.Context) []func() list.ListResource {
	return query.ListResources()
}

func (p *rabbitmqdelay) Actions(context.Context) []func() action.Action { return actions.All() }

func (p *rabbitmqdelay) Functions(context.Context) []func() function.Function { return functions.All() }
