package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"

	"github.com/rabbitmqdelay/terraform-provider-rabbitmqdelay/internal/plaintext"
)

// plainServer is the framework's server, but what people read of its answers is plain text. It never answers nil.
type plainServer struct{ frameworkServer }

type frameworkServer interface {
	tfprotov6.ProviderServer
	tfprotov6.ListResourceServer
}

// NewServer returns the provider in the given version, as the plugin protocol has it. Any number of them may be in use
// at a time.
func NewServer(version string, options ...Option) (tfprotov6.ProviderServer, error) {
	p := &rabbitmqdelay{version: version}
	for _, option := range options {
		option(p)
	}
	framework, ok := providerserver.NewProtocol6(p)().(frameworkServer)
	if !ok {
		return nil, errors.New("the framework's server has no list resources")
	}
	return plainServer{framework}, nil
}

// An Option is nothing that a user can choose.
type Option func(*rabbitmqdelay)

// BindAtOnce does not wait until new queues are durable. It is for tests of all else.
func BindAtOnce(p *rabbitmqdelay) { p.bindsAtOnce = true }

func (s plainServer) ValidateResourceConfig(
	ctx context.Context, req *tfprotov6.ValidateResourceConfigRequest,
) (*tfprotov6.ValidateResourceConfigResponse, error) {
	resp, err := s.frameworkServer.ValidateResourceConfig(ctx, req)
	showPlain(resp.Diagnostics)
	return resp, err
}

func (s plainServer) ReadResource(
	ctx context.Context, req *tfprotov6.ReadResourceRequest,
) (*tfprotov6.ReadResourceResponse, error) {
	resp, err := s.frameworkServer.ReadResource(ctx, req)
	showPlain(resp.Diagnostics)
	return resp, err
}

func (s plainServer) PlanResourceChange(
	ctx context.Context, req *tfprotov6.PlanResourceChangeRequest,
) (*tfprotov6.PlanResourceChangeResponse, error) {
	resp, err := s.frameworkServer.PlanResourceChange(ctx, req)
	showPlain(resp.Diagnostics)
	return resp, err
}

func (s plainServer) ApplyResourceChange(
	ctx context.Context, req *tfprotov6.ApplyResourceChangeRequest,
) (*tfprotov6.ApplyResourceChangeResponse, error) {
	resp, err := s.frameworkServer.ApplyResourceChange(ctx, req)
	showPlain(resp.Diagnostics)
	return resp, err
}

func (s plainServer) ImportResourceState(
	ctx context.Context, req *tfprotov6.ImportResourceStateRequest,
) (*tfprotov6.ImportResourceStateResponse, error) {
	resp, err := s.frameworkServer.ImportResourceState(ctx, req)
	showPlain(resp.Diagnostics)
	return resp, err
}

func (s plainServer) ListResource(
	ctx context.Context, req *tfprotov6.ListResourceRequest,
) (*tfprotov6.ListResourceServerStream, error) {
	stream, err := s.frameworkServer.ListResource(ctx, req)
	if err != nil {
		return nil, err
	}
	results := stream.Results
	stream.Results = func(push func(tfprotov6.ListResourceResult) bool) {
		for result := range results {
			showPlain(result.Diagnostics)
			if !push(result) {
				return
			}
		}
	}
	return stream, nil
}

func (s plainServer) ReadDataSource(
	ctx context.Context, req *tfprotov6.ReadDataSourceRequest,
) (*tfprotov6.ReadDataSourceResponse, error) {
	resp, err := s.frameworkServer.ReadDataSource(ctx, req)
	showPlain(resp.Diagnostics)
	return resp, err
}

// showPlain leaves nothing in diagnostics that a terminal or a CI log would obey. Names are quoted, and a broker's
// words are plain before. This is for a place where that was forgotten, and for commands to a CI system within a name,
// where Terraform may begin a line.
func showPlain(diagnostics []*tfprotov6.Diagnostic) {
	for _, d := range diagnostics {
		d.Summary, d.Detail = plaintext.Line(d.Summary), plaintext.Lines(d.Detail)
	}
}
