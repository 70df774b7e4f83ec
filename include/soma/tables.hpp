#pragma once
// Tables: CSV files of numbers and categories, standardised for a net, and a split of their rows.
// Needs what soma/text.hpp needs (soma::text in CMake).

#include <soma/data/split.hpp>
#include <soma/text/tables/read_table.hpp>
#include <soma/text/tables/table_encoder.hpp>
