package estimate

var englishWords = []string{"the", "a"}
