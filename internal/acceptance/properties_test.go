package acceptance

import (
	"context"
	"errors"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	amqp10 "github.com/Azure/go-amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/docstest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/acceptance/harness"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/brokertest"
	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/version"
)

// The guide's table says what a cascade does with each property of a message, by version of RabbitMQ and type of queue.
// Messages show whether that is so on this broker.
func TestMessageProperties(t *testing.T) {
	fates := propertyFates(t)
	for property := range propertyTests {
		if fates[property] == nil {
			t.Errorf("the guide does not tell what becomes of: %s", property)
		}
	}
	t.Parallel()
	broker := brokertest.Shared(t).Version
	for _, queueType := range []string{"quorum", "classic"} {
		t.Run(queueType, func(t *testing.T) {
			t.Parallel()
			for property, row := range fates {
				t.Run(property, func(t *testing.T) {
					t.Parallel()
					test, known := propertyTests[property]
					want, told := row.of(broker, queueType)
					switch {
					case !known:
						t.Fatal("no test sends such a message")
					case !told:
						t.Skipf("the guide does not tell of RabbitMQ %s", broker)
					case want == "–":
						t.Skip("this version does not know it")
					}
					if fate := test(newJourney(t, queueType)); fate != want {
						t.Errorf("%s, but the guide says: %s", fate, want)
					}
				})
			}
		})
	}
}

const propertiesGuide = "templates/guides/publishing.md.tmpl"

// propertyRow is a row of the guide's table, by column, such as "4.0 quorum". The last one has words.
type propertyRow map[string]string

const (
	newestColumn = "4.3"
	wordsColumn  = "effect"
)

// of is the fate on a version. One that is later than the newest column is like that. The words may say that a property
// is harmful by then, which is for quorum queues.
func (row propertyRow) of(broker, queueType string) (fate string, told bool) {
	numbers := strings.Split(broker, ".")
	if fate, told = row[strings.Join(numbers[:min(2, len(numbers))], ".")+" "+queueType]; told {
		return fate, true
	}
	if !version.AtLeast(broker, 4, 4) { // which comes after the newest column
		return "", false
	}
	if queueType == "quorum" && strings.Contains(row[wordsColumn], "**harmful** from RabbitMQ 4.4 on") {
		return harmful, true
	}
	return row[newestColumn+" "+queueType], true
}

// propertyFates are the rows of the guide's table, by property.
func propertyFates(t *testing.T) map[string]propertyRow {
	t.Helper()
	fates := map[string]propertyRow{}
	var columns []string
	for line := range strings.Lines(docstest.ReadPage(t, propertiesGuide)) {
		if !strings.HasPrefix(line, "| ") {
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
			if i < len(cells)-1 {
				cells[i] = strings.Trim(cells[i], "*")
			}
		}
		if columns == nil {
			if cells[0] == "property" { // that of another table otherwise
				columns = cells
			}
			continue
		}
		property := strings.ReplaceAll(cells[0], "`", "")
		fates[property] = propertyRow{}
		for i, column := range columns[1:] {
			fates[property][column] = cells[i+1]
		}
	}
	if len(fates) == 0 {
		t.Fatalf("%s has no table", propertiesGuide)
	}
	return fates
}

// What becomes of a property.
const (
	kept    = "kept"
	changed = "changed"
	dropped = "dropped"
	harmful = "harmful" // to this message or to others
)

// propertyTests send messages with a property, and tell what becomes of it.
var propertyTests = map[string]func(*journey) string{
	"content type":              carries(amqp.Publishing{ContentType: "text/x-test"}),
	"content encoding":          carries(amqp.Publishing{ContentEncoding: "gzip"}),
	"message id":                carries(amqp.Publishing{MessageId: "m-1"}),
	"correlation id":            carries(amqp.Publishing{CorrelationId: "c-1"}),
	"reply-to":                  carries(amqp.Publishing{ReplyTo: "answers"}),
	"type":                      carries(amqp.Publishing{Type: "order.created"}),
	"timestamp":                 carries(amqp.Publishing{Timestamp: time.Unix(1_700_000_000, 0)}),
	"app id":                    carries(amqp.Publishing{AppId: "shop"}),
	"headers":                   carries(amqp.Publishing{Headers: amqp.Table{"trace": "abc", "n": int64(1)}}),
	"header x-delay":            carries(amqp.Publishing{Headers: amqp.Table{"x-delay": int32(60_000)}}),
	"delivery mode, persistent": carries(amqp.Publishing{DeliveryMode: amqp.Persistent}),
	"delivery mode, transient":  carries(amqp.Publishing{DeliveryMode: amqp.Transient}),
	"user id": func(j *journey) string {
		return carries(amqp.Publishing{UserId: j.Broker.Username})(j)
	},
	"header x-opt-delivery-time, a later time": func(j *journey) string { return withDeliveryTime(j, afterwards) },
	"header x-opt-delivery-time, a past time":  func(j *journey) string { return withDeliveryTime(j, -afterwards) },
	"priority 0 to 4":                          overtakes(4),
	"priority 5 and more":                      overtakes(9),
	"expiration":                               expires,
	"mandatory":                                mandatory,
	"header CC":                                furtherKeys("CC"),
	"header BCC":                               furtherKeys("BCC"),
	"header x-death, sent again":               sentAgain,
	"annotations (AMQP 1.0)": func(j *journey) string {
		return annotated(j, "quorum", "x-opt-trace", "abc")
	},
	"annotation x-opt-delivery-time (AMQP 1.0)": annotatedWithDeliveryTime,
}

// propertyScale has delays of 500 ms, 1 s and 2 s in a row.
var propertyScale = harness.BinaryScale(3, 500*time.Millisecond)

// journey sends messages through a cascade of its own: messages of other tests in its queues would hold them up.
type journey struct {
	cascadeUnderTest
	address   string
	publisher *brokertest.Publisher
	arrivals  *brokertest.Collector
}

func newJourney(t *testing.T, queueType string) *journey {
	t.Helper()
	v := harness.NewVhost(t)
	harness.NewProtocol(t, v.Broker, nil).MustApply(harness.Attributes{"vhost": v.Name, "name": "t",
		"queue_type": queueType, "levels": propertyScale.Levels, "resolution": propertyScale.Resolution.String()})
	j := &journey{cascadeUnderTest: cascadeUnderTest{v, propertyScale, "t.delay-02", "t.delivery"},
		address: strings.ReplaceAll(t.Name(), "/", "-")}
	j.publisher = v.Publisher()
	j.arrivals = v.Collect(j.delivery, harness.DestinationKey(j.Levels, j.address))
	return j
}

// key is that for a delay in units of the resolution.
func (j *journey) key(units int, address string) string {
	return harness.KeyOf(j.T, j.Scale(), j.after(units), address)
}

func (j *journey) after(units int) time.Duration { return time.Duration(units) * j.Resolution }

func (j *journey) publish(units int, message amqp.Publishing) (sent time.Time) {
	j.T.Helper()
	sent = harness.BrokerTime()
	if err := j.publisher.Publish(j.T.Context(), j.entry, j.key(units, j.address), message); err != nil {
		j.T.Fatal(err)
	}
	return sent
}

// mark sends a message that is the last to arrive.
func (j *journey) mark() {
	j.T.Helper()
	j.cascadeUnderTest.Publish(j.entry, j.key(7, j.address), "mark")
}

// untilMark is what has arrived when the mark does.
func (j *journey) untilMark() []brokertest.Arrival {
	j.T.Helper()
	for n := 1; ; n++ {
		arrivals := j.Arrived(j.arrivals, n)
		if string(arrivals[n-1].Body) == "mark" {
			return arrivals[:n-1]
		}
	}
}

// carries sends a message with a property through two queues, and looks for it where it arrives.
func carries(sent amqp.Publishing) func(*journey) string {
	return func(j *journey) string {
		at := j.publish(3, sent)
		arrival := j.Arrived(j.arrivals, 1)[0]
		if wait := arrival.At.Sub(at); wait < harness.Least(j.after(3)) {
			j.T.Errorf("the message is early: %s", wait)
		}
		got := amqp.Publishing{Headers: amqp.Table{}, ContentType: arrival.ContentType,
			ContentEncoding: arrival.ContentEncoding, DeliveryMode: arrival.DeliveryMode, Priority: arrival.Priority,
			CorrelationId: arrival.CorrelationId, ReplyTo: arrival.ReplyTo, Expiration: arrival.Expiration,
			MessageId: arrival.MessageId, Timestamp: arrival.Timestamp, Type: arrival.Type, UserId: arrival.UserId,
			AppId: arrival.AppId}
		for name, value := range arrival.Headers {
			if name != "x-death" && !strings.HasPrefix(name, "x-first-death-") &&
				!strings.HasPrefix(name, "x-last-death-") {
				got.Headers[name] = value
			}
		}
		if sent.Headers == nil {
			sent.Headers = amqp.Table{}
		}
		switch {
		case reflect.DeepEqual(got, sent):
			return kept
		case reflect.DeepEqual(got, amqp.Publishing{Headers: amqp.Table{}}):
			return dropped
		}
		j.T.Logf("%+v became %+v", sent, got)
		return changed
	}
}

// overtakes sends a message with a priority into the queue in which another one waits, long before that is due. It is
// harmful if the other one waits for it.
func overtakes(priority uint8) func(*journey) string {
	return func(j *journey) string {
		seen, waits := 0, false
		for !waits { // a busy machine may be too slow for that
			sent := j.publish(4, amqp.Publishing{Type: "normal"})
			time.Sleep(j.after(1)) // what comes later has to be due later
			j.publish(4, amqp.Publishing{Type: "urgent", Priority: priority})
			waits = time.Since(sent) < j.after(4)
			seen += 2
			j.Arrived(j.arrivals, seen)
		}
		arrivals := j.arrivals.Arrivals()[seen-2:]
		urgent := arrivals[1]
		if arrivals[0].Type != "normal" {
			return harmful
		}
		if urgent.Priority != priority {
			return changed
		}
		return kept
	}
}

// expires sends a message that waits in two queues, with an expiration that is shorter than the first wait. A busy
// machine may bring a message so late that its expiration does not show. Three such messages in a row are not all late.
func expires(j *journey) string {
	for n := range 3 {
		at := j.publish(6, amqp.Publishing{Expiration: "100"})
		arrival := j.Arrived(j.arrivals, n+1)[n]
		switch wait := arrival.At.Sub(at); {
		case wait < harness.Least(j.after(2)):
			j.T.Errorf("the expiration cuts the second wait as well: the message arrives after %s", wait)
		case wait < harness.Least(j.after(6)):
			return harmful
		}
	}
	return kept
}

// mandatory sends to an address that nobody has bound, and with a key that the entry does not match.
func mandatory(j *journey) string {
	fate := dropped
	for _, key := range []string{j.key(3, "nobody."+j.address), "malformed." + j.address} {
		err := j.publisher.Publish(j.T.Context(), j.entry, key, amqp.Publishing{})
		switch {
		case errors.Is(err, brokertest.ErrReturned):
			fate = kept
		case err != nil:
			j.T.Fatal(err)
		}
	}
	return fate
}

// furtherKeys sends a message with a further key in a header: for one unit, where its own is for three.
func furtherKeys(header string) func(*journey) string {
	return func(j *journey) string {
		further := "further." + j.address
		others := j.Collect(j.delivery, harness.DestinationKey(j.Levels, further))
		at := j.publish(3, amqp.Publishing{Headers: amqp.Table{header: []any{j.key(1, further)}}})
		j.mark()
		arrivals, copies := j.untilMark(), others.Arrivals()
		for _, a := range slices.Concat(arrivals, copies) {
			j.T.Logf("%s after %s", a.RoutingKey, a.At.Sub(at))
		}
		if len(arrivals) != 1 || len(copies) != 1 || arrivals[0].At.Sub(at) < harness.Least(j.after(3)) {
			return harmful
		}
		return kept
	}
}

// sentAgain sends a message that was delayed once more through the same queues, with all headers.
func sentAgain(j *journey) string {
	j.publish(3, amqp.Publishing{})
	first := j.Arrived(j.arrivals, 1)[0]
	j.publish(3, amqp.Publishing{Headers: first.Headers})
	j.mark()
	arrivals := j.untilMark()
	if len(arrivals) != 2 {
		return harmful
	}
	if reflect.DeepEqual(timesDied(arrivals[1]), timesDied(first)) {
		return dropped
	}
	return changed
}

// timesDied are the counts of the header x-death, by queue.
func timesDied(a brokertest.Arrival) map[string]int64 {
	counts := map[string]int64{}
	deaths, _ := a.Headers["x-death"].([]any)
	for _, death := range deaths {
		if death, is := death.(amqp.Table); is {
			queue, _ := death["queue"].(string)
			counts[queue], _ = death["count"].(int64)
		}
	}
	return counts
}

// afterwards is later than a message with a time in x-opt-delivery-time arrives that ignores the time.
const afterwards = 30 * time.Second

// withDeliveryTime sends a message with a time for quorum queues that delay by themselves.
func withDeliveryTime(j *journey, in time.Duration) string {
	sent := time.Now()
	fate := carries(amqp.Publishing{Headers: amqp.Table{deliveryTime: sent.Add(in).UnixMilli()}})(j)
	if time.Since(sent) >= afterwards {
		return harmful
	}
	return fate
}

// annotatedWithDeliveryTime does the same over AMQP 1.0, to a receiver that ignores the time.
func annotatedWithDeliveryTime(j *journey) string {
	receivers := []string{"classic"}
	if version.Before(j.Broker.Version, 4, 4) {
		receivers = append(receivers, "quorum")
	}
	sent := time.Now()
	fates := map[string]bool{}
	for _, receiver := range receivers {
		fates[annotated(j, receiver, deliveryTime, sent.Add(afterwards).UnixMilli())] = true
	}
	switch {
	case time.Since(sent) >= afterwards:
		return harmful
	case len(fates) == 1 && fates[kept]:
		return kept
	}
	return changed
}

// annotated sends a message with an annotation over AMQP 1.0, and receives it over AMQP 1.0, from a queue of the type.
func annotated(j *journey, receiverType, annotation string, value any) string {
	queue := "annotated-" + receiverType
	j.DeclareQueue(queue, map[string]any{"x-queue-type": receiverType})
	j.Bind(j.delivery, harness.DestinationKey(j.Levels, queue), "queue", queue)
	uri, err := url.Parse(j.Broker.AMQPURI)
	if err != nil {
		j.T.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(j.T.Context(), harness.Patience)
	defer cancel()
	conn, err := amqp10.Dial(ctx, "amqp://"+uri.Host, &amqp10.ConnOptions{HostName: "vhost:" + j.Name,
		SASLType: amqp10.SASLTypePlain(j.Broker.Username, j.Broker.Password)})
	if err != nil {
		j.T.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		j.T.Fatal(err)
	}
	entry := "/exchanges/" + url.PathEscape(j.entry) + "/" + url.PathEscape(j.key(3, queue))
	sender, err := session.NewSender(ctx, entry, nil)
	if err != nil {
		j.T.Fatal(err)
	}
	message := amqp10.NewMessage([]byte("with annotations"))
	message.Annotations = amqp10.Annotations{annotation: value}
	if err := sender.Send(ctx, message, nil); err != nil {
		j.T.Fatal(err)
	}
	receiver, err := session.NewReceiver(ctx, "/queues/"+queue, nil)
	if err != nil {
		j.T.Fatal(err)
	}
	received, err := receiver.Receive(ctx, nil)
	if err != nil {
		j.T.Fatal(err)
	}
	switch received.Annotations[annotation] {
	case value:
		return kept
	case nil:
		return dropped
	}
	return changed
}
