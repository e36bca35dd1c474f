package query

// Answering returns the names of the functions below which Go programs answer a request: of net/http, HTTP/2 included,
// and of gRPC.
func Answering() []string {
	return []string{"net/http.serverHandler.ServeHTTP", "google.golang.org/grpc.(*Server).handleStream"}
}
