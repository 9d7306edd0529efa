// Reads compose files as Compose v2 does, with its library and its schema, and prints the names of the services.
//
//	go run . docker-compose.yml[,FILE...] [PROFILE...]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(strings.Split(os.Args[1], ","), cli.WithProfiles(os.Args[2:]), cli.WithName("checked"))
	if err != nil {
		log.Fatal(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(strings.Join(project.ServiceNames(), "\n"))
}
