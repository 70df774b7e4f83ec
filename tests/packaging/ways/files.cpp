// Uses a component that has a compiled half.
#include <soma/models.hpp>

#include <cstdio>

int main() { std::printf("%zu layers\n", soma::models::bert_config_from_json("{}").config.layers); }
