package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// drawing is a plot of one metric of one scenario, with a line for each subject.
type drawing struct {
	file, scenario, metric, title, x, y string
	logX                                bool
}

var drawings = []drawing{
	{"publish-quorum", "publish quorum", "rate", "Publish rate with confirms, quorum queues, delay of one step", "levels", "messages per second", false},
	{"lateness-p99", "lateness", "p99", "Lateness of 99 of 100 messages, quorum queues, 28 levels", "messages per second", "milliseconds", true},
	{"lateness-p50", "lateness", "p50", "Lateness of half of the messages, quorum queues, 28 levels", "messages per second", "milliseconds", true},
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
	p.Title.Text = each.title + ", RabbitMQ " + broker
	p.X.Label.Text, p.Y.Label.Text = each.x, each.y
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	if each.logX {
		p.X.Scale, p.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	p.Add(plotter.NewGrid())
	p.Legend.Top = true
	for i, subject := range d.subjects(broker, each.scenario, each.metric) {
		var all spread
		for _, x := range d.xs(broker, each.scenario, each.metric) {
			if f, ok := d.figure(broker, each.scenario, subject, x, each.metric); ok && f.low > 0 {
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
		line.Color, line.Dashes = plotutil.Color(i), plotutil.Dashes(i/7)
		points.Color, points.Shape = line.Color, plotutil.Shape(i)
		bars.Color = line.Color
		p.Add(line, points, bars)
		p.Legend.Add(subject, line, points)
	}
	// Room for the legend.
	p.Y.Max *= 10
	return p.Save(18*vg.Centimeter, 11*vg.Centimeter, file)
}

// spread is a line with the lowest and highest value at each point.
type spread struct {
	plotter.XYs
	plotter.YErrors
}
