#pragma once

#include <rapidcheck.h>

#include "model_queue_operations.hpp"

namespace oncebox::conformance {

[[nodiscard]] rc::Gen<QueueSequence> queue_sequences();

}  // namespace oncebox::conformance
