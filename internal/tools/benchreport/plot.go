package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// drawing is a plot of one metric of one scenario, with a line for each subject.
type drawing struct {
	file, scenario, metric, title, x, y string
	logX                                bool
}

var drawings = []drawing{
	{"publish-quorum", "publish quorum", "rate", "Publish rate with confirms, quorum queues, delay of one step",
		"levels", "messages per second", false},
	{"lateness-p99", "lateness", "p99", "Lateness of 99 of 100 messages, quorum queues, 28 levels",
		"messages per second", "milliseconds", true},
	{"lateness-by-units-p99", "lateness, by units", "p99", "Lateness of 99 of 100 messages, quorum queues",
		"messages per second", "milliseconds", true},
	{"destroy", "terraform destroy, latency", "time", "Time of a destroy, quorum queues",
		"milliseconds more per round trip", "seconds", true},
}

// drawAll makes an SVG file of each drawing for each broker that it was measured on.
func drawAll(d *data, directory string) error {
	for _, each := range drawings {
		for _, broker := range d.brokers() {
			if len(d.xs(broker, each.scenario, each.metric)) < 2 {
				continue
			}
			if err := each.draw(d, broker, filepath.Join(directory, each.name(broker))); err != nil {
				return fmt.Errorf("%s: %w", each.file, err)
			}
		}
	}
	return nil
}

// name has the broker's generation in it, such as 4.3.
func (each drawing) name(broker string) string {
	parts := strings.SplitN(broker, ".", 3)
	return each.file + "-" + strings.Join(parts[:min(2, len(parts))], ".") + ".svg"
}

func (each drawing) draw(d *data, broker, file string) error {
	p := plot.New()
	for _, style := range []*font.Font{&p.Title.TextStyle.Font, &p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font,
		&p.X.Tick.Label.Font, &p.Y.Tick.Label.Font, &p.Legend.TextStyle.Font} {
		style.Variant = "Sans"
	}
	p.Title.Text = each.title + ", RabbitMQ " + broker
	p.Title.Padding = vg.Points(6)
	p.X.Label.Text, p.Y.Label.Text = each.x, each.y
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	if each.logX {
		p.X.Scale = plot.LogScale{}
	}
	p.X.Tick.Marker = d.ticks(broker, each)
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	lines := 0
	for _, subject := range d.subjects(broker, each.scenario, each.metric) {
		var all spread
		for _, x := range d.xs(broker, each.scenario, each.metric) {
			if f, ok := d.figure(broker, each.scenario, subject, x, each.metric); ok && f.low > 0 &&
				!d.censored(broker, each.scenario, subject, x, each.metric) {
				all.XYs = append(all.XYs, plotter.XY{X: x, Y: f.median})
				all.YErrors = append(all.YErrors, struct{ Low, High float64 }{f.median - f.low, f.high - f.median})
			}
		}
		if len(all.XYs) < 2 {
			continue // no line
		}
		line, points, err := plotter.NewLinePoints(all.XYs)
		if err != nil {
			return err
		}
		bars, err := plotter.NewYErrorBars(all)
		if err != nil {
			return err
		}
		line.Color, line.Dashes = plotutil.Color(lines), plotutil.Dashes(lines/7)
		points.Color, points.Shape = line.Color, plotutil.Shape(lines)
		bars.Color = line.Color
		p.Add(line, points, bars)
		p.Legend.Add(subject, line, points)
		lines++
	}
	// Room for the legend.
	p.Y.Max *= 10
	const width, height, margin = 18 * vg.Centimeter, 11 * vg.Centimeter, vg.Centimeter / 2
	canvas := vgsvg.New(width, height)
	p.Draw(draw.Crop(draw.New(canvas), 0, -margin, 0, 0))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return err
	}
	// These have the same widths, and one of them is everywhere.
	text := strings.ReplaceAll(svg.String(), "font-family:Liberation Sans", "font-family:Liberation "+
		"Sans,Arial,Helvetica,sans-serif")
	return os.WriteFile(file, []byte(text), 0o644) //nolint:gosec // for everybody to read
}

// ticks are at the values that were measured.
func (d *data) ticks(broker string, of drawing) plot.ConstantTicks {
	var ticks plot.ConstantTicks
	for _, x := range d.xs(broker, of.scenario, of.metric) {
		ticks = append(ticks, plot.Tick{Value: x, Label: strconv.FormatFloat(x, 'f', -1, 64)})
	}
	return ticks
}

// spread is a line with the lowest and highest value at each point.
type spread struct {
	plotter.XYs
	plotter.YErrors
}
