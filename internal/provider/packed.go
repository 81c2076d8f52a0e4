package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/terraform-plugin-framework/attr"
	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// packedAttributes are the maps of objects, with nearly all values that a state has: 977 on 28 levels. The framework goes through
// all values a dozen times in a plan, looks up the path of each in the schema every time, and compares sets pair by pair (1.19.0): 62 of
// 72 ms for planning that nothing changes (BenchmarkPlan), and 50 ms of a refresh. So these attributes pass through it packed, each as one
// text that it does not look into: the bytes that stand for the value in the plugin protocol, in MessagePack. Nothing in the provider reads
// them back, and Terraform sees nothing of it.
var packedAttributes = []string{"exchanges", "queues", "bindings"}

// packed is the value as the framework gets it.
func packed(value attr.Value) types.String {
	ctx := context.Background()
	if value.IsUnknown() {
		return types.StringUnknown()
	}
	plain, err := value.ToTerraformValue(ctx)
	if err != nil {
		panic(err) // it was built of values of its type
	}
	encoded, err := tfprotov6.NewDynamicValue(plain.Type(), plain)
	if err != nil {
		panic(err) // likewise
	}
	return types.StringValue(string(encoded.MsgPack))
}

// packSchema makes the attributes what the framework gets.
func packSchema(attributes map[string]schema.Attribute) {
	for _, name := range packedAttributes {
		attributes[name] = schema.StringAttribute{Computed: true}
	}
}

// server unpacks what Terraform gets, and packs what it sends.
type server struct {
	packedServer
	// plain has the schemas that Terraform sees, and is not configured.
	plain tfprotov6.ProviderServer
}

// packedServer is the framework's server.
type packedServer interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
	tfprotov6.ActionServer
}

// NewServer returns the provider in the given version, as the plugin protocol has it. Any number of them may be in use at a time.
func NewServer(version string) (tfprotov6.ProviderServer, error) {
	framework, ok := providerserver.NewProtocol6(&rabbitmqdelay{version: version, packs: true})().(packedServer)
	if !ok {
		return nil, errors.New("the framework's server has no list resources or no actions")
	}
	return &server{framework, providerserver.NewProtocol6(&rabbitmqdelay{version: version})()}, nil
}

func (s *server) GetProviderSchema(ctx context.Context, req *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return s.plain.GetProviderSchema(ctx, req)
}

// UpgradeResourceState gets a state in JSON, and does no more than to decode it.
func (s *server) UpgradeResourceState(ctx context.Context, req *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	return s.plain.UpgradeResourceState(ctx, req)
}

func (s *server) ValidateResourceConfig(ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	inner := *req
	if err := pack(&inner.Config); err != nil {
		return nil, err
	}
	return s.packedServer.ValidateResourceConfig(ctx, &inner)
}

func (s *server) ReadResource(ctx context.Context, req *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	inner := *req
	if err := pack(&inner.CurrentState); err != nil {
		return nil, err
	}
	resp, err := s.packedServer.ReadResource(ctx, &inner)
	if err != nil {
		return nil, err
	}
	return resp, unpack(&resp.NewState)
}

func (s *server) PlanResourceChange(ctx context.Context, req *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	inner := *req
	if err := pack(&inner.PriorState, &inner.ProposedNewState, &inner.Config); err != nil {
		return nil, err
	}
	resp, err := s.packedServer.PlanResourceChange(ctx, &inner)
	if err != nil {
		return nil, err
	}
	return resp, unpack(&resp.PlannedState)
}

func (s *server) ApplyResourceChange(ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	inner := *req
	if err := pack(&inner.PriorState, &inner.PlannedState, &inner.Config); err != nil {
		return nil, err
	}
	resp, err := s.packedServer.ApplyResourceChange(ctx, &inner)
	if err != nil {
		return nil, err
	}
	return resp, unpack(&resp.NewState)
}

func (s *server) ImportResourceState(ctx context.Context, req *tfprotov6.ImportResourceStateRequest) (*tfprotov6.ImportResourceStateResponse, error) {
	resp, err := s.packedServer.ImportResourceState(ctx, req)
	if err != nil {
		return nil, err
	}
	for _, imported := range resp.ImportedResources {
		err = errors.Join(err, unpack(&imported.State))
	}
	return resp, err
}

func (s *server) GenerateResourceConfig(ctx context.Context, req *tfprotov6.GenerateResourceConfigRequest) (*tfprotov6.GenerateResourceConfigResponse, error) {
	inner := *req
	if err := pack(&inner.State); err != nil {
		return nil, err
	}
	resp, err := s.packedServer.GenerateResourceConfig(ctx, &inner)
	if err != nil {
		return nil, err
	}
	return resp, unpack(&resp.Config)
}

func (s *server) ListResource(ctx context.Context, req *tfprotov6.ListResourceRequest) (*tfprotov6.ListResourceServerStream, error) {
	stream, err := s.packedServer.ListResource(ctx, req)
	if err != nil {
		return nil, err
	}
	results := stream.Results
	stream.Results = func(push func(tfprotov6.ListResourceResult) bool) {
		for result := range results {
			if err := unpack(&result.Resource); err != nil {
				result.Resource = nil
				result.Diagnostics = append(result.Diagnostics, &tfprotov6.Diagnostic{Severity: tfprotov6.DiagnosticSeverityError, Summary: "Unreadable result", Detail: err.Error()})
			}
			if !push(result) {
				return
			}
		}
	}
	return stream, nil
}

// pack packs the attributes of objects in place of what they point to.
func pack(objects ...**tfprotov6.DynamicValue) error {
	for _, object := range objects {
		err := rewrite(object, func(out *msgpack.Encoder, value msgpack.RawMessage) error { return out.EncodeString(string(value)) })
		if err != nil {
			return err
		}
	}
	return nil
}

// unpack is the opposite.
func unpack(object **tfprotov6.DynamicValue) error {
	return rewrite(object, func(out *msgpack.Encoder, value msgpack.RawMessage) error {
		var text string
		if err := msgpack.Unmarshal(value, &text); err != nil {
			return err
		}
		return out.Encode(msgpack.RawMessage(text))
	})
}

// rewrite replaces an object by one whose packed attributes are written by change, unless they are null or unknown.
func rewrite(object **tfprotov6.DynamicValue, change func(*msgpack.Encoder, msgpack.RawMessage) error) error {
	if *object == nil {
		return nil
	}
	if len((*object).JSON) > 0 {
		return errors.New("a value in JSON, where Terraform uses MessagePack")
	}
	in := msgpack.NewDecoder(bytes.NewReader((*object).MsgPack))
	attributes, err := in.DecodeMapLen()
	if err != nil {
		return fmt.Errorf("read an object: %w", err)
	}
	if attributes < 0 {
		return nil // null
	}
	var written bytes.Buffer
	out := msgpack.NewEncoder(&written)
	err = out.EncodeMapLen(attributes)
	for range attributes {
		name, nameErr := in.DecodeString()
		value, valueErr := in.DecodeRaw()
		if err = errors.Join(err, nameErr, valueErr, out.EncodeString(name)); err != nil {
			return fmt.Errorf("read an object: %w", err)
		}
		if slices.Contains(packedAttributes, name) && value[0] != msgpcode.Nil && !msgpcode.IsExt(value[0]) {
			err = change(out, value)
		} else {
			err = out.Encode(value)
		}
	}
	*object = &tfprotov6.DynamicValue{MsgPack: written.Bytes()}
	return err
}
