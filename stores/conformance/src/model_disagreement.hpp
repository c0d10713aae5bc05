#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "oncebox/conformance/print.hpp"

namespace oncebox::conformance {

/// Store and model do not say the same. The text shows what each of them said.
class Disagreement : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

template <class T>
void require_same(std::string_view what, const T& store, const T& model) {
  if (store == model) return;
  throw Disagreement(std::string(what) + "\n    store: " + testing::PrintToString(store) +
                     "\n    model: " + testing::PrintToString(model));
}

/// Points at the first item that differs.
template <class T>
void require_same(std::string_view what, const std::vector<T>& store, const std::vector<T>& model) {
  for (std::size_t i = 0; i < std::min(store.size(), model.size()); ++i) {
    require_same(std::string(what) + ", item " + std::to_string(i + 1), store[i], model[i]);
  }
  if (store.size() == model.size()) return;
  throw Disagreement(std::string(what) +
                     ", number of items\n    store: " + testing::PrintToString(store) +
                     "\n    model: " + testing::PrintToString(model));
}

inline void require(bool holds, const std::string& otherwise) {
  if (!holds) throw Disagreement(otherwise);
}

}  // namespace oncebox::conformance
