package bucket

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/minio/minio-go/v7"
)

// TestRefusedByS3: each way in which a store says that a condition failed is known, one in an answer of status 200, too.
func TestRefusedByS3(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer minio.ErrorResponse
		want   error
	}{
		{minio.ErrorResponse{StatusCode: http.StatusPreconditionFailed}, ErrCondition},
		{minio.ErrorResponse{StatusCode: http.StatusOK, Code: minio.PreconditionFailed}, ErrCondition},
		{minio.ErrorResponse{StatusCode: http.StatusConflict, Code: "ConditionalRequestConflict"}, ErrCondition},
		{minio.ErrorResponse{StatusCode: http.StatusOK, Code: minio.NoSuchKey}, ErrNotFound},
		{minio.ErrorResponse{StatusCode: http.StatusNotFound}, ErrNotFound},
		{minio.ErrorResponse{StatusCode: http.StatusNotFound, Code: minio.NoSuchBucket}, nil},
		{minio.ErrorResponse{StatusCode: http.StatusConflict, Code: "OperationAborted"}, nil},
		{minio.ErrorResponse{StatusCode: http.StatusInternalServerError}, nil},
	} {
		err := explain(c.answer)
		for _, is := range []error{ErrCondition, ErrNotFound} {
			if errors.Is(err, is) != (is == c.want) {
				t.Errorf("status %d, code %q: %v, want %v", c.answer.StatusCode, c.answer.Code, err, c.want)
			}
		}
	}
}

// TestCures: an error that asking again does not mend says what to do.
func TestCures(t *testing.T) {
	t.Parallel()
	for code, cure := range cures {
		answer := minio.ErrorResponse{StatusCode: http.StatusForbidden, Code: code, Message: "no"}
		err := explain(answer)
		if !strings.Contains(err.Error(), cure) || !errors.As(err, new(minio.ErrorResponse)) || errors.Is(err, ErrNotFound) || errors.Is(err, ErrCondition) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// TestFailureInSuccess: a write is not taken for done by its status alone.
func TestFailureInSuccess(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/done") {
			w.Header().Set("ETag", `"1"`)
			return
		}
		w.Write([]byte("<Error><Code>PreconditionFailed</Code><Message>At least one of the preconditions you specified did not hold.</Message></Error>"))
	}))
	defer server.Close()
	s, err := OpenS3(S3Options{Endpoint: strings.TrimPrefix(server.URL, "http://"), Bucket: "profiles", Region: "us-east-1", Insecure: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "failed", []byte("x"), Condition{Absent: true}); !errors.Is(err, errNoTag) {
		t.Errorf("a failure in an answer of status 200: %v, want %v", err, errNoTag)
	}
	if err := s.Put(t.Context(), "done", []byte("x"), Condition{Absent: true}); err != nil {
		t.Error(err)
	}
}
