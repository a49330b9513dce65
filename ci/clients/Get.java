// Prints the response to a request.
import java.net.URI;
import java.net.http.*;

class Get {
    public static void main(String[] args) throws Exception {
        var request = HttpRequest.newBuilder(URI.create(args[0])).build();
        System.out.println(HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString()).body());
    }
}
