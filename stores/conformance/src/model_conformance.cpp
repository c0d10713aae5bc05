#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <memory>

#include "model_disagreement.hpp"
#include "model_key_generator.hpp"
#include "model_key_run.hpp"
#include "model_property.hpp"
#include "model_queue_generator.hpp"
#include "model_queue_run.hpp"
#include "oncebox/conformance/fixture.hpp"

/// Drives a store and a deliberately naive model with the same random operations, time steps and
/// reopenings, and compares every answer and the states.
///
/// A run makes 200 sequences of up to 100 steps for the queues and as many for the keys (fewer for
/// a store that is far away), from a new seed each time. `ONCEBOX_MODEL_RUNS=20000` looks longer. A
/// failure prints the shrunk sequence, and the `RC_PARAMS` with which exactly it, or the whole
/// search, is run again.
namespace oncebox::conformance {

namespace {

class ModelConformance : public StoreConformance {};

TEST_P(ModelConformance, RandomOperationsAgreeWithTheNaiveModel) {
  proves("R-01", "R-02", "R-03", "R-04", "R-05", "R-06", "R-07", "R-08", "R-09", "R-10", "R-12",
         "R-14", "R-15", "R-16", "R-17", "R-18", "R-20", "R-22", "R-23", "R-24", "R-27", "R-28",
         "R-29", "R-30");
  check_property(GetParam().store.model_runs, [] {
    const QueueSequence sequence = *queue_sequences();
    const std::unique_ptr<Harness> harness = GetParam().store.make_harness();
    try {
      run_queue_sequence(*harness, sequence);
    } catch (const Disagreement& disagreement) {
      RC_FAIL(std::string(disagreement.what()));
    }
  });
}

TEST_P(ModelConformance, RandomKeyOperationsAgreeWithTheNaiveModel) {
  proves("KIN-01", "KIN-03", "KIN-04", "KIN-05", "KIN-06", "KIN-09", "PKT-05", "PKT-06");
  check_property(GetParam().store.model_runs, [] {
    const KeySequence sequence = *key_sequences();
    const std::unique_ptr<Harness> harness = GetParam().store.make_harness();
    try {
      run_key_sequence(*harness, sequence);
    } catch (const Disagreement& disagreement) {
      RC_FAIL(std::string(disagreement.what()));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Stores, ModelConformance, testing::ValuesIn(on_inbox()), case_name);

}  // namespace

}  // namespace oncebox::conformance
