package cmd

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/llmbatch/llmbatch/runner"
	"github.com/llmbatch/llmbatch/runner/provider"
	"github.com/llmbatch/llmbatch/runner/route"
)

// completeChoices lets a shell complete every flag whose usage lists its
// values, such as `input|completion`.
func completeChoices(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); strings.Contains(name, "|") {
			completeFlag(c, f.Name, func() []string { return strings.Split(name, "|") })
		}
	})
	for _, below := range c.Commands() {
		completeChoices(below)
	}
}

// completeFlag lets a shell complete a flag with what values finds, never with
// files. The flags before it have been read by then.
func completeFlag(c *cobra.Command, flag string, values func() []string) {
	// The error is of a flag that is not there.
	_ = c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
}

// completeList is completeFlag for values with commas between them.
func completeList(c *cobra.Command, flag string, values func() []string) {
	_ = c.RegisterFlagCompletionFunc(flag, func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		before := typed[:strings.LastIndexByte(typed, ',')+1]
		out := values()
		for i := range out {
			out[i] = before + out[i]
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	})
}

// complete lets a shell complete what run and estimate take: providers and
// models of the config file among them.
func (o *runOptions) complete(c *cobra.Command, env Env) {
	completeFlag(c, "provider", func() []string {
		names := providerNames()
		if rc := o.configured(env); rc != nil {
			for _, r := range refs(rc) {
				names = append(names, r.Provider)
			}
			names = append(names, slices.Collect(maps.Keys(rc.Providers))...)
		}
		slices.Sort(names)
		return slices.Compact(names)
	})
	models := func() (names []string) {
		rc := o.configured(env)
		if rc == nil {
			return nil
		}
		for _, r := range refs(rc) {
			if r.Model != "" && (r.Provider == o.target.provider || !c.Flags().Changed("provider")) {
				names = append(names, r.Model)
			}
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	completeFlag(c, "model", models)
	completeFlag(c, "override-model", models)
	completeList(c, "retry-failed", func() []string {
		names := []string{"all", runner.ClassInvalid}
		for _, k := range provider.Kinds() {
			names = append(names, k.String())
		}
		return names
	})
	_ = c.MarkFlagFilename("config", "yaml", "yml", "json")
}

// configured is the config file that the flags before name; nil = none that
// can be read.
func (o *runOptions) configured(env Env) *route.Config {
	path := o.configFile
	if path == "" {
		path = env.Getenv(configEnv)
	}
	if path == "" {
		return nil
	}
	rc, err := loadConfig(path, "")
	if err != nil {
		return nil // run says what is wrong with it
	}
	return rc
}

// refs are the models that a config file names, at their providers.
func refs(rc *route.Config) (all []route.Ref) {
	for name := range rc.Models {
		at, model, _ := strings.Cut(name, "/")
		all = append(all, route.Ref{Provider: at, Model: model})
	}
	for _, t := range rc.Tasks {
		all = append(all, t.Primary)
		for _, f := range t.Fallbacks {
			all = append(all, f.Ref)
		}
		if t.DegradeTo != nil {
			all = append(all, t.DegradeTo.Ref)
		}
	}
	return all
}
