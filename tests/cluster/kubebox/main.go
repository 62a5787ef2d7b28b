// Kubebox is Kubernetes in one static binary, for the test cluster: etcd, the control plane, a node and kubectl.
//
// Which of them it is, it takes from the name that it was started by (a link), or from its first argument.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	etcd "go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
)

// A part is made only when it is asked for: making one registers flags and metrics that another would register, too.
var parts = map[string]func([]string) int{
	"etcd": func(args []string) int {
		etcd.Main(args)
		return 0
	},
	"kube-apiserver":          command(func() *cobra.Command { return apiserver.NewAPIServerCommand() }),
	"kube-controller-manager": command(func() *cobra.Command { return controllers.NewControllerManagerCommand() }),
	"kube-scheduler":          command(func() *cobra.Command { return scheduler.NewSchedulerCommand() }),
	"kube-proxy":              command(func() *cobra.Command { return proxy.NewProxyCommand() }),
	"kubelet":                 command(func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) }),
	"kubectl":                 command(func() *cobra.Command { return kubectl.NewDefaultKubectlCommand() }),
}

// command wraps a part that is written with cobra, which reads os.Args itself.
func command(build func() *cobra.Command) func([]string) int {
	return func(args []string) int {
		os.Args = args
		return cli.Run(build())
	}
}

func main() {
	args := slices.Clone(os.Args)
	if _, linked := parts[filepath.Base(args[0])]; !linked {
		args = args[1:]
	}
	if len(args) > 0 {
		if start, known := parts[filepath.Base(args[0])]; known {
			os.Exit(start(args))
		}
	}

	names := make([]string, 0, len(parts))
	for name := range parts {
		names = append(names, name)
	}
	slices.Sort(names)
	fmt.Fprintln(os.Stderr, "kubebox: say which part to be:", strings.Join(names, ", "))
	os.Exit(2)
}
