// Command dashboard prints a Grafana dashboard for delay cascades and ladders, as JSON to import. It needs the
// metrics that the rules in rules.yml record.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/table"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// chosen selects the cascade or ladder of the dashboard's variables.
const chosen = `job="$job", vhost="$vhost", name="$name"`

func main() {
	built, err := cascades().Build()
	if err == nil {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(built)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// cascades is in the first version of the format, which each Grafana imports.
func cascades() *dashboard.DashboardBuilder { //nolint:staticcheck // the second version is for the newest alone
	built := dashboard.NewDashboardBuilder("Delay cascades and ladders") //nolint:staticcheck // as above
	return built.
		Uid("rabbitmqdelay").
		Tags([]string{"rabbitmq"}).
		Refresh("30s").
		Time("now-6h", "now").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(variable("job", "Job", "rabbitmqdelay_entry_info")).
		WithVariable(variable("vhost", "Virtual host", `rabbitmqdelay_entry_info{job="$job"}`)).
		WithVariable(variable("name", "Cascade or ladder", `rabbitmqdelay_entry_info{job="$job", vhost="$vhost"}`)).
		WithPanel(number("Waiting", `sum(rabbitmqdelay:messages{`+chosen+`, role="delay"})`)).
		WithPanel(number("Held", `sum(rabbitmqdelay:held{`+chosen+`})`)).
		WithPanel(number("Overdue", `sum(min_over_time(rabbitmqdelay:held{`+chosen+`}[15m]))`)).
		WithPanel(number("Parked", `sum(rabbitmqdelay:messages{`+chosen+`, role="unroutable"})`)).
		WithPanel(alerts()).
		WithPanel(due()).
		WithPanel(lines("Waiting by queue", "short",
			query(`rabbitmqdelay:messages{`+chosen+`, role="delay"} > 0`, "{{queue}}"))).
		WithPanel(lines("Published and delivered", "mps",
			query(`sum(rabbitmqdelay:published:rate5m{`+chosen+`})`, "published"),
			query(`sum by (queue) (rabbitmqdelay:delivered:rate5m{`+chosen+`})`, "delivered from {{queue}}"))).
		WithPanel(lines("Parked and held", "short",
			query(`sum(rabbitmqdelay:messages{`+chosen+`, role="unroutable"})`, "parked"),
			query(`rabbitmqdelay:held{`+chosen+`} > 0`, "held in {{queue}}"))).
		WithPanel(lines("Share of max_length", "percentunit",
			query(`rabbitmqdelay:messages{`+chosen+`, role="delay"} / on (job, vhost, queue) group_left () `+
				`rabbitmqdelay_queue_max_length > 0`, "{{queue}}")))
}

// due shows how many messages are due at the latest in the next minutes, hours and days. A count is
// of messages, whose own delays RabbitMQ does not tell: each may be due earlier.
func due() *heatmap.PanelBuilder {
	panel := heatmap.NewPanelBuilder().
		Title("Due at the latest").
		Description("What waits now, by the latest time at which it can arrive. Each message may be due earlier.").
		Datasource(source()).
		Calculate(false).
		Tooltip(heatmap.NewHeatmapTooltipBuilder().Mode(common.TooltipDisplayModeSingle)).
		Height(9).Span(24)
	bounds := []struct {
		seconds int
		text    string
	}{{60, "1 minute"}, {600, "10 minutes"}, {3600, "1 hour"}, {2 * 3600, "2 hours"}, {4 * 3600, "4 hours"},
		{8 * 3600, "8 hours"}, {16 * 3600, "16 hours"}, {86400, "1 day"}, {7 * 86400, "1 week"}}
	const counted = `sum(rabbitmqdelay:messages{` + chosen + `, role="delay"} and on (job, vhost, queue) ` +
		`(rabbitmqdelay_queue_due_seconds > %s)) or vector(0)`
	after := "0"
	for i, bound := range bounds {
		within := fmt.Sprintf("%s <= %d", after, bound.seconds)
		panel.WithTarget(query(fmt.Sprintf(counted, within), "in "+bound.text).RefId(letter(i)))
		after = strconv.Itoa(bound.seconds)
	}
	return panel.WithTarget(query(fmt.Sprintf(counted, after), "later").RefId(letter(len(bounds))))
}

func alerts() *table.PanelBuilder {
	return table.NewPanelBuilder().
		Title("Alerts").
		Datasource(source()).
		WithTarget(query(`count by (alertname, severity, queue) (ALERTS{job="$job", name="$name", `+
			`alertstate="firing"})`, "").Instant().Format(prometheus.PromQueryFormatTable)).
		Height(4).Span(12)
}

func number(title, expression string) *stat.PanelBuilder {
	return stat.NewPanelBuilder().
		Title(title).
		Datasource(source()).
		WithTarget(query(expression, "")).
		Height(4).Span(3)
}

func lines(title, unit string, queries ...*prometheus.DataqueryBuilder) *timeseries.PanelBuilder {
	panel := timeseries.NewPanelBuilder().
		Title(title).
		Datasource(source()).
		Unit(unit).
		Legend(common.NewVizLegendOptionsBuilder().ShowLegend(true)).
		Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti)).
		Height(8).Span(12)
	for i, query := range queries {
		panel.WithTarget(query.RefId(letter(i)))
	}
	return panel
}

// letter tells the queries of a panel apart.
func letter(i int) string { return string(rune('A' + i)) }

func query(expression, legend string) *prometheus.DataqueryBuilder {
	return prometheus.NewDataqueryBuilder().Expr(expression).LegendFormat(legend).Range()
}

// variable lets the reader choose among the values of the label with its name.
func variable(label, title, metric string) *dashboard.QueryVariableBuilder {
	return dashboard.NewQueryVariableBuilder(label).
		Label(title).
		Datasource(source()).
		Query(dashboard.StringOrMap{String: cog.ToPtr(fmt.Sprintf("label_values(%s, %s)", metric, label))}).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged)
}

func source() common.DataSourceRef {
	return common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("$datasource")}
}
