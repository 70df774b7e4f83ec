// The text of an error, to compare with.
#pragma once

#include <soma/base/error.hpp>

#include <string>

namespace soma_test {

// The whole message: "<operation>: <argument> is <given>, wanted <wanted> [<id>]".
template <class Action>
std::string message_of(Action&& action) {
  try {
    action();
  } catch (const soma::Error& error) {
    return error.what();
  }
  return "no error";
}

template <class Action>
std::string id_of(Action&& action) {
  try {
    action();
  } catch (const soma::Error& error) {
    return std::string(error.id().name);
  }
  return "no error";
}

}  // namespace soma_test
