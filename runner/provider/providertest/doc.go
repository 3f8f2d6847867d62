// Package providertest is the suite that every [provider.Client] passes: how
// the wire can fail, and golden answers with the class or result each must get.
package providertest
