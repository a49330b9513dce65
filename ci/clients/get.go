// Prints the response to a request.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	response, err := http.Get(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	io.Copy(os.Stdout, response.Body)
}
