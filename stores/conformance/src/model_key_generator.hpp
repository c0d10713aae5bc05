#pragma once

#include <rapidcheck.h>

#include "model_key_operations.hpp"

namespace oncebox::conformance {

[[nodiscard]] rc::Gen<KeySequence> key_sequences();

}  // namespace oncebox::conformance
