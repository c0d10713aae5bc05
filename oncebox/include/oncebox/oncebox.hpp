#pragma once

/// What a program needs in its first hour, in the order in which it meets it. The README beside
/// this header names what each is for; whoever wants shorter compile times includes them one by
/// one.
#include "oncebox/dispatch/dispatcher.hpp"          // IWYU pragma: export
#include "oncebox/dispatch/outbox_dispatcher.hpp"   // IWYU pragma: export
#include "oncebox/error.hpp"                        // IWYU pragma: export
#include "oncebox/inbox.hpp"                        // IWYU pragma: export
#include "oncebox/message.hpp"                      // IWYU pragma: export
#include "oncebox/open_store.hpp"                   // IWYU pragma: export
#include "oncebox/outbox.hpp"                       // IWYU pragma: export
#include "oncebox/receive/idempotent_receiver.hpp"  // IWYU pragma: export
