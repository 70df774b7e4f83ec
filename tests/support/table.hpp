// Tables of cases that take long as a whole: an ordinary run checks a part that meets each kind of
// path, the slow suite all of the table, both with the same function.
#pragma once

#include <initializer_list>
#include <vector>

namespace soma_test {

enum class Table { part, whole };

// The entries of one column of a table.
template <class T>
std::vector<T> entries(Table table, std::initializer_list<T> part, std::initializer_list<T> whole) {
  return table == Table::whole ? whole : part;
}

}  // namespace soma_test
