// soma::dispatch: random programs of operators. Programs that make none do not link this unit.

#include <soma/testing/between/impl/book.ipp>
#include <soma/testing/between/impl/checks.ipp>
#include <soma/testing/between/impl/choice.ipp>
#include <soma/testing/between/impl/generate.ipp>
#include <soma/testing/between/impl/image_rules.ipp>
#include <soma/testing/between/impl/program.ipp>
#include <soma/testing/between/impl/reduce.ipp>
#include <soma/testing/between/impl/rules.ipp>
#include <soma/testing/between/impl/runner.ipp>
#include <soma/testing/between/impl/truth.ipp>
#include <soma/testing/impl/between.ipp>
