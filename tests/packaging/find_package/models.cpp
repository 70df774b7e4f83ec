// The headers behind component models, in a unit of their own.
#include <soma/models.hpp>

std::size_t layers_of_base();
std::size_t layers_of_base() { return soma::models::bert_config_from_json("{}").config.layers; }
