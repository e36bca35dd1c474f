package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// S3 is a bucket of an S3-compatible store. It asks again after failures, up to ten times: so a write may meet its own
// earlier one ([ErrCondition]).
type S3 struct {
	client *minio.Client
	bucket string
	prefix string // of all keys; empty, or ends with a slash
}

// S3Options say where a bucket is. The keys come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY), from
// the file of AWS_SHARED_CREDENTIALS_FILE, or from the metadata of the machine.
type S3Options struct {
	Endpoint string // host, perhaps with a port
	Bucket   string
	Prefix   string // of all keys
	Region   string
	Insecure bool // HTTP, for this machine alone
}

// OpenS3 returns a bucket of S3. It sends nothing yet.
func OpenS3(o S3Options) (*S3, error) {
	client, err := minio.New(o.Endpoint, &minio.Options{
		Creds: credentials.NewChainCredentials([]credentials.Provider{
			&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}, &credentials.IAM{},
		}),
		Secure: !o.Insecure, Region: o.Region,
	})
	if err != nil {
		return nil, fmt.Errorf("open bucket %s of %s: %w", o.Bucket, o.Endpoint, err)
	}
	prefix := strings.Trim(o.Prefix, "/")
	if prefix != "" {
		if err := checkKey(prefix); err != nil {
			return nil, fmt.Errorf("open bucket %s of %s: prefix: %w", o.Bucket, o.Endpoint, err)
		}
		prefix += "/"
	}
	return &S3{client, o.Bucket, prefix}, nil
}

// Get implements [Bucket].
func (s *S3) Get(ctx context.Context, key string, most int64) ([]byte, string, error) {
	if err := checkKey(key); err != nil {
		return nil, "", err
	}
	object, err := s.client.GetObject(ctx, s.bucket, s.prefix+key, minio.GetObjectOptions{})
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, explain(err))
	}
	defer object.Close()
	var body bytes.Buffer
	n, err := io.Copy(&body, io.LimitReader(object, most+1))
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, explain(err))
	}
	if n > most {
		return nil, "", fmt.Errorf("get %s: %w: more than %d bytes", key, ErrTooLarge, most)
	}
	info, err := object.Stat() // of the answer that the body came with
	if err != nil {
		return nil, "", fmt.Errorf("get %s: %w", key, explain(err))
	}
	return body.Bytes(), info.ETag, nil
}

// Range implements [Bucket]. It is one request.
func (s *S3) Range(ctx context.Context, key string, offset, size int64) ([]byte, error) {
	if err := checkKey(key); err != nil {
		return nil, err
	}
	var o minio.GetObjectOptions
	if size <= 0 || offset < 0 {
		return nil, fmt.Errorf("get %s: %d bytes from %d on are no range", key, size, offset)
	}
	if err := o.SetRange(offset, offset+size-1); err != nil {
		return nil, fmt.Errorf("get %s: %w", key, err)
	}
	object, _, _, err := minio.Core{Client: s.client}.GetObject(ctx, s.bucket, s.prefix+key, o)
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", key, explain(err))
	}
	defer object.Close()
	var body bytes.Buffer
	if _, err := io.Copy(&body, io.LimitReader(object, size+1)); err != nil {
		return nil, fmt.Errorf("get %s: %w", key, explain(err))
	}
	if int64(body.Len()) != size {
		return nil, fmt.Errorf("get %s: the answer has %d bytes, not %d from %d on: see whether the store has the whole object, or a proxy cuts answers", key, body.Len(), size, offset)
	}
	return body.Bytes(), nil
}

// Put implements [Bucket]. It is one request, never one for each part: a condition of those is not checked by all
// stores.
func (s *S3) Put(ctx context.Context, key string, body []byte, c Condition) error {
	if err := checkKey(key); err != nil {
		return err
	}
	o := minio.PutObjectOptions{ContentType: "application/octet-stream", DisableMultipart: true}
	if c.Absent {
		o.SetMatchETagExcept("*")
	}
	if c.Tag != "" {
		o.SetMatchETag(c.Tag)
	}
	info, err := s.client.PutObject(ctx, s.bucket, s.prefix+key, bytes.NewReader(body), int64(len(body)), o)
	if err == nil && info.ETag == "" {
		err = errNoTag
	}
	if err = explain(err); errors.Is(err, ErrNotFound) && c.Tag != "" {
		err = ErrCondition
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// errNoTag is the error of a write that nobody knows the outcome of: a store may answer 200 and then say that it failed.
var errNoTag = errors.New("the store has answered 200 without an ETag, so nothing counts as written: it is tried again; " +
	"if that goes on, find what drops the header, or use a store that sends it")

// List implements [Bucket].
func (s *S3) List(ctx context.Context, prefix string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the client's goroutine
		o := minio.ListObjectsOptions{Prefix: s.prefix + prefix, Recursive: true}
		for object := range s.client.ListObjects(ctx, s.bucket, o) {
			if object.Err != nil {
				yield(Entry{}, fmt.Errorf("list %s: %w", prefix, explain(object.Err)))
				return
			}
			if strings.HasSuffix(object.Key, "/") {
				continue // a folder, which some tools make
			}
			if !yield(Entry{strings.TrimPrefix(object.Key, s.prefix), object.Size, object.LastModified}, nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Entry{}, fmt.Errorf("list %s: %w", prefix, err))
		}
	}
}

// Delete implements [Bucket].
func (s *S3) Delete(ctx context.Context, key string) error {
	if err := checkKey(key); err != nil {
		return err
	}
	err := explain(s.client.RemoveObject(ctx, s.bucket, s.prefix+key, minio.RemoveObjectOptions{}))
	if err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// cures says what to do about an error that asking again does not mend, by its code.
var cures = map[string]string{
	minio.NoSuchBucket:             "make the bucket, or mend --bucket: the hub makes none",
	"AccessDenied":                 "give the keys the rights in packaging/hub/policy.json",
	"InvalidAccessKeyId":           "see AWS_ACCESS_KEY_ID, or the file of AWS_SHARED_CREDENTIALS_FILE",
	"SignatureDoesNotMatch":        "see AWS_SECRET_ACCESS_KEY, or the file of AWS_SHARED_CREDENTIALS_FILE",
	"AuthorizationHeaderMalformed": "name the region of the bucket: --region",
	"PermanentRedirect":            "name the host of the bucket's region: --s3 and --region",
	"RequestTimeTooSkewed":         "set the clock of this machine",
	"NotImplemented":               "name a store that knows conditions of writes, or a directory",
}

// explain wraps the errors of this package around those of the client, and says what to do. A store may say in an answer
// of status 200 that a condition failed: the code decides.
func explain(err error) error {
	if err == nil {
		return nil
	}
	answer := minio.ToErrorResponse(err)
	switch {
	case answer.Code == minio.NoSuchKey, answer.StatusCode == http.StatusNotFound && answer.Code != minio.NoSuchBucket:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	case answer.Code == minio.PreconditionFailed, answer.StatusCode == http.StatusPreconditionFailed,
		answer.Code == "ConditionalRequestConflict":
		return fmt.Errorf("%w: %w", ErrCondition, err)
	case cures[answer.Code] != "":
		return fmt.Errorf("%w: %s", err, cures[answer.Code])
	}
	return err
}
