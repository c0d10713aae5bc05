#pragma once

#include <cstddef>
#include <exception>
#include <sstream>
#include <string>
#include <vector>

#include "model_disagreement.hpp"

namespace oncebox::conformance {

/// Applies the steps to a run and compares the states every few steps and at the end. Throws
/// `Disagreement` that says where, also when the store throws.
template <class Run, class Step>
void run_steps(Run& run, const std::vector<Step>& steps) {
  constexpr std::size_t kStepsBetweenComparisons = 8;
  std::string where;
  try {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      std::ostringstream text;
      text << "in step " << i + 1 << " (" << steps[i] << ")";
      where = text.str();
      run.apply(steps[i]);
      if ((i + 1) % kStepsBetweenComparisons != 0) continue;
      where = "in the comparison of the states after step " + std::to_string(i + 1);
      run.compare_states();
    }
    where = "in the comparison of the states at the end";
    run.compare_states();
  } catch (const Disagreement& disagreement) {
    throw Disagreement(where + ": " + disagreement.what());
  } catch (const std::exception& error) {
    throw Disagreement(where + ": the store threw: " + error.what());
  }
}

}  // namespace oncebox::conformance
