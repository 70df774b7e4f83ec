// soma::dispatch: samples of the built-in operators. Programs that check no operator do not link
// this unit.

#include <soma/testing/impl/samples.ipp>
