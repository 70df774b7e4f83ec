// soma::dispatch: the checks of operators.

#include <soma/impl/testing.ipp>
#include <soma/testing/impl/checker.ipp>
#include <soma/testing/impl/report.ipp>
#include <soma/testing/impl/run_sample.ipp>
#include <soma/testing/impl/timing.ipp>
#include <soma/testing/impl/values.ipp>
