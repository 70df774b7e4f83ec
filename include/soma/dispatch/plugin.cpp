// soma::dispatch: operators from shared libraries, and the processors that run some of them.
// Linux; elsewhere this unit is empty.

#include <soma/system/which.hpp>

#if SOMA_LINUX
#include <soma/impl/plugin.ipp>
#include <soma/impl/processors.ipp>
#include <soma/neuroncore/processors/impl/functions.ipp>
#include <soma/neuroncore/processors/impl/local_memory.ipp>
#include <soma/neuroncore/processors/impl/model.ipp>
#include <soma/neuroncore/processors/impl/processor.ipp>
#include <soma/neuroncore/processors/impl/run.ipp>
#include <soma/neuroncore/processors/impl/services.ipp>
#include <soma/neuroncore/processors/impl/tensors.ipp>
#include <soma/ops/impl/processor_operator.ipp>
#include <soma/system/impl/library.ipp>
#endif
