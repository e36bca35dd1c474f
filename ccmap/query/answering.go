package query

// Answering returns the names of the functions below which programs answer a request: of net/http, HTTP/2 included, and
// of gRPC; of servlets, and of the JDK's own server.
func Answering() []string {
	return []string{
		"net/http.serverHandler.ServeHTTP", "google.golang.org/grpc.(*Server).handleStream",
		"jakarta.servlet.http.HttpServlet.service", "javax.servlet.http.HttpServlet.service", "com.sun.net.httpserver.Filter$Chain.doFilter",
	}
}
