#pragma once
// Tables: CSV files of numbers and categories, standardised for a network, and a split of their
// rows. Needs the libraries of soma/text.hpp (soma::text in CMake).

#include <soma/data/split.hpp>
#include <soma/text/tables/read_table.hpp>
#include <soma/text/tables/row_groups.hpp>
#include <soma/text/tables/table_encoder.hpp>
