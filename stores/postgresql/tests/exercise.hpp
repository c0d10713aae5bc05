#pragma once

#include "oncebox/store.hpp"
#include "oncebox/testing/fake_clock.hpp"

namespace oncebox::postgresql {

/// Makes every call of an empty store, of both queues and of the keys, on rows of every kind, and
/// expects it to do what it says. `clock` is the store's. What the calls mean in every case is
/// shown by the conformance suite; this is for the circumstances in which a store is used.
void exercise(Store& store, testing::FakeClock& clock);

}  // namespace oncebox::postgresql
