#pragma once
// Parts of a checkpoint from all ranks, into the folder that the first rank has begun.

#include <soma/parallel/agreement.hpp>
#include <soma/state/checkpoint.hpp>

#include <cstdint>
#include <exception>
#include <string>

namespace soma::train {

// Every rank calls it. All parts are there when it returns, on any rank. any(bool): whether it is
// true on any of them.
template <class Any>
void save_part(Communicator& communicator, CheckpointStore* store, std::uint64_t step,
               const CheckpointPart& part, const StateDict& own, const Any& any) {
  const bool first = communicator.rank() == 0;
  const std::string place = soma::detail::broadcast_text(
      communicator, first ? store->begin_parts(step) : std::string(), 0);
  std::exception_ptr problem;
#if SOMA_HAS_EXCEPTIONS
  try {
    store->save_part(place, part, own);
  } catch (...) {
    problem = std::current_exception();
  }
#else
  store->save_part(place, part, own);
#endif
  if (!any(problem != nullptr)) return;
  // Rank 0 may be ended with the others before it can tidy up.
  if (first) store->drop_parts();
  communicator.barrier();
#if SOMA_HAS_EXCEPTIONS
  if (problem != nullptr) std::rethrow_exception(problem);
#endif
  communicator.barrier();  // ends with what a rank with a problem says
}

}  // namespace soma::train
