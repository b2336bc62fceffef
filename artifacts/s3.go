package artifacts

import (
	"bytes"
	"context"
	"crypto/md5" // stores without other checksums verify this one
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"net"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/holdfast-run/holdfast/fault"
)

// The ways to let the store verify what arrives. S3-compatible stores differ in
// what they accept; damage is found in any case when an object is opened.
const (
	ChecksumNone  = "none"  // no checksum beyond the request's signature; every store takes it
	ChecksumCRC32 = "crc32" // in a header, never in a trailer
	ChecksumMD5   = "md5"   // as Content-MD5
)

// S3Config says where the bucket is. Bucket, AccessKeyID and SecretAccessKey are
// required.
type S3Config struct {
	Endpoint        string // http(s) URL; empty for AWS itself
	Region          string // us-east-1 when empty
	Bucket          string
	AccessKeyID     string
	SecretAccessKey string
	SessionToken    string // only with temporary credentials
	Checksum        string // ChecksumNone when empty
}

// String describes the place without the secrets.
func (c S3Config) String() string {
	return fmt.Sprintf("bucket %q at %q, region %q", c.Bucket, c.Endpoint, c.Region)
}

// LogValue describes the place without the secrets.
func (c S3Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

const (
	partSize      = 8 << 20          // bytes that one upload holds in memory
	spareParts    = 2                // kept in memory for the next uploads
	maxParts      = 10_000           // of one object, by the S3 protocol
	attempts      = 3                // of one request
	requestLimit  = time.Minute      // for one request of at most partSize
	completeLimit = 5 * time.Minute  // for joining the parts, which some stores copy
	stallLimit    = time.Minute      // without a byte while an object is read
	abortLimit    = 10 * time.Second // for giving up an upload, also when the caller has gone
)

// S3 is an ObjectStore in a bucket of an S3-compatible store. It uses only plain
// requests: PutObject up to one part, a sequential multipart upload above it,
// GetObject, DeleteObject and HeadBucket.
type S3 struct {
	client   *s3.Client
	bucket   string
	checksum string
	parts    chan []byte // spare ones, partSize long
}

// NewS3 makes a client for the bucket. It does not connect; Ping does. A
// configuration that cannot work is fault.Invalid.
func NewS3(cfg S3Config) (*S3, error) {
	invalid := func(message string, args ...any) error {
		return fault.New(fault.Invalid, "s3_config_invalid", message, args...)
	}
	if cfg.Bucket == "" {
		return nil, invalid("The object store needs the name of a bucket.")
	}
	if cfg.AccessKeyID == "" || cfg.SecretAccessKey == "" {
		return nil, invalid("The object store needs an access key id and a secret access key.")
	}
	switch cfg.Checksum {
	case "", ChecksumNone, ChecksumCRC32, ChecksumMD5:
	default:
		return nil, invalid("The checksum of the object store is %q; it must be %s, %s or %s.", cfg.Checksum, ChecksumNone, ChecksumCRC32, ChecksumMD5)
	}
	options := s3.Options{
		Region:       "us-east-1",
		UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: cfg.AccessKeyID, SecretAccessKey: cfg.SecretAccessKey, SessionToken: cfg.SessionToken, Source: "holdfast configuration"}, nil
		}),
		// Left to itself the SDK adds checksums that some stores refuse; ours are set by hand.
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
		HTTPClient:                 awshttp.NewBuildableClient().WithDialerOptions(func(d *net.Dialer) { d.Timeout = 5 * time.Second }),
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.MaxBackoff = attempts, time.Second
		}),
	}
	if cfg.Region != "" {
		options.Region = cfg.Region
	}
	if cfg.Endpoint != "" {
		u, err := url.Parse(cfg.Endpoint)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") || u.User != nil {
			return nil, invalid("The address of the object store must be an http:// or https:// URL without credentials in it.")
		}
		options.BaseEndpoint = aws.String(cfg.Endpoint)
	}
	return &S3{client: s3.New(options), bucket: cfg.Bucket, checksum: cfg.Checksum, parts: make(chan []byte, spareParts)}, nil
}

// Put implements ObjectStore.
func (s *S3) Put(ctx context.Context, key string, body io.Reader) error {
	part := s.takePart()
	defer s.sparePart(part)
	n, ended, err := fill(part, body)
	switch {
	case err != nil:
		return err
	case ended:
		return s.putWhole(ctx, key, part[:n])
	default:
		return s.putParts(ctx, key, body, part)
	}
}

// takePart gives memory for a part. Some is kept: to get it anew from the system takes
// longer than to seal what it holds.
func (s *S3) takePart() []byte {
	select {
	case part := <-s.parts:
		return part
	default:
		return make([]byte, partSize)
	}
}

func (s *S3) sparePart(part []byte) {
	select {
	case s.parts <- part:
	default:
	}
}

// fill reads until part is full or body ends. Unlike io.ReadFull it does not take a
// body that broke off with io.ErrUnexpectedEOF for one that ended.
func fill(part []byte, body io.Reader) (n int, ended bool, err error) {
	for n < len(part) {
		var m int
		m, err = body.Read(part[n:])
		n += m
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

func (s *S3) putWhole(ctx context.Context, key string, content []byte) error {
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	sum := s.sum(content)
	_, err := s.client.PutObject(limited, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &key, Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))),
		ChecksumCRC32: sum.crc32, ContentMD5: sum.md5,
	})
	return s.explain(ctx, err)
}

// putParts uploads the full first part and the rest of body, one part at a time in
// the same memory.
func (s *S3) putParts(ctx context.Context, key string, body io.Reader, part []byte) (err error) {
	create := &s3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &key}
	if s.checksum == ChecksumCRC32 {
		create.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32
	}
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	upload, err := s.client.CreateMultipartUpload(limited, create)
	cancel()
	if err != nil {
		return s.explain(ctx, err)
	}
	defer func() {
		if err != nil {
			s.abort(ctx, key, upload.UploadId)
		}
	}()

	var done []types.CompletedPart
	for n, ended := len(part), false; n > 0; {
		number := int32(len(done) + 1)
		if number > maxParts {
			return fault.New(fault.TooLarge, "artifact_too_large", "The object is larger than the %d bytes that the object store can take in one upload.", int64(partSize)*maxParts)
		}
		completed, err := s.putPart(ctx, key, upload.UploadId, number, part[:n])
		if err != nil {
			return err
		}
		done = append(done, completed)
		if ended {
			break
		}
		if n, ended, err = fill(part, body); err != nil {
			return err
		}
	}
	limited, cancel = context.WithTimeout(ctx, completeLimit)
	defer cancel()
	_, err = s.client.CompleteMultipartUpload(limited, &s3.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: &key, UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: done},
	})
	return s.explain(ctx, err)
}

func (s *S3) putPart(ctx context.Context, key string, upload *string, number int32, content []byte) (types.CompletedPart, error) {
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	sum := s.sum(content)
	out, err := s.client.UploadPart(limited, &s3.UploadPartInput{
		Bucket: &s.bucket, Key: &key, UploadId: upload, PartNumber: &number,
		Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))),
		ChecksumCRC32: sum.crc32, ContentMD5: sum.md5,
	})
	if err != nil {
		return types.CompletedPart{}, s.explain(ctx, err)
	}
	return types.CompletedPart{PartNumber: &number, ETag: out.ETag, ChecksumCRC32: sum.crc32}, nil
}

// abort gives up a multipart upload. When that fails too the parts stay until the
// bucket's own rule for unfinished uploads removes them; they are no object.
func (s *S3) abort(ctx context.Context, key string, upload *string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortLimit)
	defer cancel()
	_, _ = s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: &key, UploadId: upload})
}

// Get implements ObjectStore.
func (s *S3) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	reading, cancel := context.WithCancel(ctx)
	stall := time.AfterFunc(stallLimit, cancel)
	out, err := s.client.GetObject(reading, &s3.GetObjectInput{Bucket: &s.bucket, Key: &key})
	stall.Stop()
	if err != nil {
		cancel()
		return nil, s.explain(ctx, err)
	}
	return &s3Body{store: s, ctx: ctx, body: out.Body, cancel: cancel, stall: stall}, nil
}

// s3Body is an object being read. It gives up when no byte comes for stallLimit.
type s3Body struct {
	store  *S3
	ctx    context.Context // the caller's, to tell its end from the store's
	body   io.ReadCloser
	cancel context.CancelFunc
	stall  *time.Timer
}

// Read implements io.Reader.
func (b *s3Body) Read(p []byte) (int, error) {
	b.stall.Reset(stallLimit)
	n, err := b.body.Read(p)
	b.stall.Stop()
	if err != nil && !errors.Is(err, io.EOF) {
		err = b.store.explain(b.ctx, err)
	}
	return n, err
}

// Close implements io.Closer.
func (b *s3Body) Close() error {
	defer b.cancel()
	b.stall.Stop()
	return b.body.Close()
}

// Delete implements ObjectStore.
func (s *S3) Delete(ctx context.Context, key string) error {
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	_, err := s.client.DeleteObject(limited, &s3.DeleteObjectInput{Bucket: &s.bucket, Key: &key})
	if err = s.explain(ctx, err); fault.Is(err, fault.NotFound) { // as some stores say
		return nil
	}
	return err
}

// Ping implements ObjectStore.
func (s *S3) Ping(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	_, err := s.client.HeadBucket(limited, &s3.HeadBucketInput{Bucket: &s.bucket})
	if err != nil && ctx.Err() == nil {
		return s.unavailable(err) // a missing bucket is no missing object
	}
	return s.explain(ctx, err)
}

// explain sorts an error of the SDK: the caller's own end, no such key, or the store.
func (s *S3) explain(ctx context.Context, err error) error {
	var noKey *types.NoSuchKey
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &noKey):
		return fault.New(fault.NotFound, "object_not_in_store", "The object store has no such object.").Because(err)
	default:
		return s.unavailable(err)
	}
}

func (s *S3) unavailable(err error) error {
	return fault.New(fault.Unavailable, "store_unavailable", "The object store does not answer or refuses the request. Nothing was stored; try again in a moment.").Because(err)
}

// sums are the checksums that go with a request; absent ones are nil.
type sums struct{ crc32, md5 *string }

func (s *S3) sum(content []byte) sums {
	switch s.checksum {
	case ChecksumCRC32:
		sum := binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(content))
		return sums{crc32: aws.String(base64.StdEncoding.EncodeToString(sum))}
	case ChecksumMD5:
		sum := md5.Sum(content)
		return sums{md5: aws.String(base64.StdEncoding.EncodeToString(sum[:]))}
	default:
		return sums{}
	}
}
