// Picture writes what a terminal shows of a plan, colours included, as SVG: text in, picture out. The legend that each
// plan begins with is left out. The documentation shows a plan with it, see GNUmakefile.
package main

import (
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

func main() {
	text, err := io.ReadAll(os.Stdin)
	if err == nil {
		_, err = os.Stdout.WriteString(picture(withoutLegend(string(text))))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// withoutLegend is what a plan will do.
func withoutLegend(plan string) string {
	if _, actions, begins := strings.Cut(plan, "will perform the following actions:\n\n"); begins {
		return actions
	}
	return plan
}

// The colours of a dark terminal.
const (
	background = "#1e1e1e"
	foreground = "#d4d4d4"
)

// styles are what the codes that Terraform prints look like.
var styles = map[string]string{
	"1": "font-weight:bold", "4": "text-decoration:underline", "31": "fill:#f14c4c", "32": "fill:#23d18b",
	"33": "fill:#e5e510", "36": "fill:#29b8db", "90": "fill:#808080",
}

// reset ends all styles. A plan ends with it.
const reset = "\x1b[0m"

var styleCode = regexp.MustCompile("\x1b\\[([0-9;]*)m")

// picture is what a terminal shows of a text, as SVG: a line of text for each line, which can be searched and copied.
func picture(text string) string {
	const charWidth, lineHeight, margin = 8.0, 18, 16
	lines := strings.Split(strings.TrimRight(strings.TrimSuffix(text, reset+"\n"), "\n"), "\n")
	columns := 0
	var body strings.Builder
	style := ""
	for i, line := range lines {
		columns = max(columns, utf8.RuneCountInString(styleCode.ReplaceAllString(line, "")))
		fmt.Fprintf(&body, "<text x=\"%d\" y=\"%d\">", margin, margin+lineHeight*(i+1)-5)
		for line != "" {
			code := styleCode.FindStringSubmatchIndex(line)
			end := len(line)
			if code != nil {
				end = code[0]
			}
			writeStyled(&body, line[:end], style)
			if code == nil {
				break
			}
			style = styled(style, line[code[2]:code[3]])
			line = line[code[1]:]
		}
		body.WriteString("</text>\n")
	}
	width, height := int(float64(columns)*charWidth)+2*margin, lineHeight*len(lines)+2*margin
	return fmt.Sprintf("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "+
		"font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace\" font-size=\"13\" fill=\"%s\">\n"+
		"<style>text { white-space: pre }</style>\n"+
		"<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"%s\"/>\n%s</svg>\n",
		width, height, width, height, foreground, background, body.String())
}

func writeStyled(body *strings.Builder, text, style string) {
	switch {
	case text == "":
	case style == "":
		body.WriteString(html.EscapeString(text))
	default:
		fmt.Fprintf(body, "<tspan style=\"%s\">%s</tspan>", style, html.EscapeString(text))
	}
}

// styled is the style after a code.
func styled(style, codes string) string {
	for _, code := range strings.Split(codes, ";") {
		if code == "" || code == "0" {
			style = ""
		} else if further := styles[code]; further != "" && !strings.Contains(style, further) {
			style = strings.TrimPrefix(style+";"+further, ";")
		}
	}
	return style
}
