#ifndef MYPYC_NATIVE_9fb2d0437285957d21f0_H
#define MYPYC_NATIVE_9fb2d0437285957d21f0_H
#include <Python.h>
#include <CPy.h>
#ifndef MYPYC_DECLARED_tuple_T2OO
#define MYPYC_DECLARED_tuple_T2OO
typedef struct tuple_T2OO {
    PyObject *f0;
    PyObject *f1;
} tuple_T2OO;
#endif

#ifndef MYPYC_DECLARED_tuple_T3OOO
#define MYPYC_DECLARED_tuple_T3OOO
typedef struct tuple_T3OOO {
    PyObject *f0;
    PyObject *f1;
    PyObject *f2;
} tuple_T3OOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T2T2OOI
#define MYPYC_DECLARED_tuple_T2T2OOI
typedef struct tuple_T2T2OOI {
    tuple_T2OO f0;
    CPyTagged f1;
} tuple_T2T2OOI;
#endif

#ifndef MYPYC_DECLARED_tuple_T4CIOO
#define MYPYC_DECLARED_tuple_T4CIOO
typedef struct tuple_T4CIOO {
    char f0;
    CPyTagged f1;
    PyObject *f2;
    PyObject *f3;
} tuple_T4CIOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T3III
#define MYPYC_DECLARED_tuple_T3III
typedef struct tuple_T3III {
    CPyTagged f0;
    CPyTagged f1;
    CPyTagged f2;
} tuple_T3III;
#endif

#ifndef MYPYC_DECLARED_tuple_T2II
#define MYPYC_DECLARED_tuple_T2II
typedef struct tuple_T2II {
    CPyTagged f0;
    CPyTagged f1;
} tuple_T2II;
#endif

#ifndef MYPYC_DECLARED_tuple_T4IIII
#define MYPYC_DECLARED_tuple_T4IIII
typedef struct tuple_T4IIII {
    CPyTagged f0;
    CPyTagged f1;
    CPyTagged f2;
    CPyTagged f3;
} tuple_T4IIII;
#endif

#ifndef MYPYC_DECLARED_tuple_T2IO
#define MYPYC_DECLARED_tuple_T2IO
typedef struct tuple_T2IO {
    CPyTagged f0;
    PyObject *f1;
} tuple_T2IO;
#endif

#ifndef MYPYC_DECLARED_tuple_T0
#define MYPYC_DECLARED_tuple_T0
typedef struct tuple_T0 {
    int empty_struct_error_flag;
} tuple_T0;
#endif

#ifndef MYPYC_DECLARED_tuple_T3CIO
#define MYPYC_DECLARED_tuple_T3CIO
typedef struct tuple_T3CIO {
    char f0;
    CPyTagged f1;
    PyObject *f2;
} tuple_T3CIO;
#endif

#ifndef MYPYC_DECLARED_tuple_T5IIIII
#define MYPYC_DECLARED_tuple_T5IIIII
typedef struct tuple_T5IIIII {
    CPyTagged f0;
    CPyTagged f1;
    CPyTagged f2;
    CPyTagged f3;
    CPyTagged f4;
} tuple_T5IIIII;
#endif

#ifndef MYPYC_DECLARED_tuple_T10OOOOOOOOOO
#define MYPYC_DECLARED_tuple_T10OOOOOOOOOO
typedef struct tuple_T10OOOOOOOOOO {
    PyObject *f0;
    PyObject *f1;
    PyObject *f2;
    PyObject *f3;
    PyObject *f4;
    PyObject *f5;
    PyObject *f6;
    PyObject *f7;
    PyObject *f8;
    PyObject *f9;
} tuple_T10OOOOOOOOOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T2OI
#define MYPYC_DECLARED_tuple_T2OI
typedef struct tuple_T2OI {
    PyObject *f0;
    CPyTagged f1;
} tuple_T2OI;
#endif

#ifndef MYPYC_DECLARED_tuple_T3OII
#define MYPYC_DECLARED_tuple_T3OII
typedef struct tuple_T3OII {
    PyObject *f0;
    CPyTagged f1;
    CPyTagged f2;
} tuple_T3OII;
#endif

#ifndef MYPYC_DECLARED_tuple_T2IT3OII
#define MYPYC_DECLARED_tuple_T2IT3OII
typedef struct tuple_T2IT3OII {
    CPyTagged f0;
    tuple_T3OII f1;
} tuple_T2IT3OII;
#endif

#ifndef MYPYC_DECLARED_tuple_T4OIII
#define MYPYC_DECLARED_tuple_T4OIII
typedef struct tuple_T4OIII {
    PyObject *f0;
    CPyTagged f1;
    CPyTagged f2;
    CPyTagged f3;
} tuple_T4OIII;
#endif

#ifndef MYPYC_DECLARED_tuple_T10IIIIIIIOOO
#define MYPYC_DECLARED_tuple_T10IIIIIIIOOO
typedef struct tuple_T10IIIIIIIOOO {
    CPyTagged f0;
    CPyTagged f1;
    CPyTagged f2;
    CPyTagged f3;
    CPyTagged f4;
    CPyTagged f5;
    CPyTagged f6;
    PyObject *f7;
    PyObject *f8;
    PyObject *f9;
} tuple_T10IIIIIIIOOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T10OIIIIIIOOO
#define MYPYC_DECLARED_tuple_T10OIIIIIIOOO
typedef struct tuple_T10OIIIIIIOOO {
    PyObject *f0;
    CPyTagged f1;
    CPyTagged f2;
    CPyTagged f3;
    CPyTagged f4;
    CPyTagged f5;
    CPyTagged f6;
    PyObject *f7;
    PyObject *f8;
    PyObject *f9;
} tuple_T10OIIIIIIOOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T2T10IIIIIIIOOOO
#define MYPYC_DECLARED_tuple_T2T10IIIIIIIOOOO
typedef struct tuple_T2T10IIIIIIIOOOO {
    tuple_T10IIIIIIIOOO f0;
    PyObject *f1;
} tuple_T2T10IIIIIIIOOOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T4OOII
#define MYPYC_DECLARED_tuple_T4OOII
typedef struct tuple_T4OOII {
    PyObject *f0;
    PyObject *f1;
    CPyTagged f2;
    CPyTagged f3;
} tuple_T4OOII;
#endif

#ifndef MYPYC_DECLARED_tuple_T2IC
#define MYPYC_DECLARED_tuple_T2IC
typedef struct tuple_T2IC {
    CPyTagged f0;
    char f1;
} tuple_T2IC;
#endif

#ifndef MYPYC_DECLARED_tuple_T3OOI
#define MYPYC_DECLARED_tuple_T3OOI
typedef struct tuple_T3OOI {
    PyObject *f0;
    PyObject *f1;
    CPyTagged f2;
} tuple_T3OOI;
#endif

#ifndef MYPYC_DECLARED_tuple_T4OIOO
#define MYPYC_DECLARED_tuple_T4OIOO
typedef struct tuple_T4OIOO {
    PyObject *f0;
    CPyTagged f1;
    PyObject *f2;
    PyObject *f3;
} tuple_T4OIOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T1O
#define MYPYC_DECLARED_tuple_T1O
typedef struct tuple_T1O {
    PyObject *f0;
} tuple_T1O;
#endif

#ifndef MYPYC_DECLARED_tuple_T2T3OOIO
#define MYPYC_DECLARED_tuple_T2T3OOIO
typedef struct tuple_T2T3OOIO {
    tuple_T3OOI f0;
    PyObject *f1;
} tuple_T2T3OOIO;
#endif

#ifndef MYPYC_DECLARED_tuple_T3OCO
#define MYPYC_DECLARED_tuple_T3OCO
typedef struct tuple_T3OCO {
    PyObject *f0;
    char f1;
    PyObject *f2;
} tuple_T3OCO;
#endif

#ifndef MYPYC_DECLARED_tuple_T5IIOII
#define MYPYC_DECLARED_tuple_T5IIOII
typedef struct tuple_T5IIOII {
    CPyTagged f0;
    CPyTagged f1;
    PyObject *f2;
    CPyTagged f3;
    CPyTagged f4;
} tuple_T5IIOII;
#endif

#ifndef MYPYC_DECLARED_tuple_T5OOOIO
#define MYPYC_DECLARED_tuple_T5OOOIO
typedef struct tuple_T5OOOIO {
    PyObject *f0;
    PyObject *f1;
    PyObject *f2;
    CPyTagged f3;
    PyObject *f4;
} tuple_T5OOOIO;
#endif

#ifndef MYPYC_DECLARED_tuple_T3IIO
#define MYPYC_DECLARED_tuple_T3IIO
typedef struct tuple_T3IIO {
    CPyTagged f0;
    CPyTagged f1;
    PyObject *f2;
} tuple_T3IIO;
#endif

#ifndef MYPYC_DECLARED_tuple_T61T2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OO
#define MYPYC_DECLARED_tuple_T61T2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OO
typedef struct tuple_T61T2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OO {
    tuple_T2OO f0;
    tuple_T2OO f1;
    tuple_T2OO f2;
    tuple_T2OO f3;
    tuple_T2OO f4;
    tuple_T2OO f5;
    tuple_T2OO f6;
    tuple_T2OO f7;
    tuple_T2OO f8;
    tuple_T2OO f9;
    tuple_T2OO f10;
    tuple_T2OO f11;
    tuple_T2OO f12;
    tuple_T2OO f13;
    tuple_T2OO f14;
    tuple_T2OO f15;
    tuple_T2OO f16;
    tuple_T2OO f17;
    tuple_T2OO f18;
    tuple_T2OO f19;
    tuple_T2OO f20;
    tuple_T2OO f21;
    tuple_T2OO f22;
    tuple_T2OO f23;
    tuple_T2OO f24;
    tuple_T2OO f25;
    tuple_T2OO f26;
    tuple_T2OO f27;
    tuple_T2OO f28;
    tuple_T2OO f29;
    tuple_T2OO f30;
    tuple_T2OO f31;
    tuple_T2OO f32;
    tuple_T2OO f33;
    tuple_T2OO f34;
    tuple_T2OO f35;
    tuple_T2OO f36;
    tuple_T2OO f37;
    tuple_T2OO f38;
    tuple_T2OO f39;
    tuple_T2OO f40;
    tuple_T2OO f41;
    tuple_T2OO f42;
    tuple_T2OO f43;
    tuple_T2OO f44;
    tuple_T2OO f45;
    tuple_T2OO f46;
    tuple_T2OO f47;
    tuple_T2OO f48;
    tuple_T2OO f49;
    tuple_T2OO f50;
    tuple_T2OO f51;
    tuple_T2OO f52;
    tuple_T2OO f53;
    tuple_T2OO f54;
    tuple_T2OO f55;
    tuple_T2OO f56;
    tuple_T2OO f57;
    tuple_T2OO f58;
    tuple_T2OO f59;
    tuple_T2OO f60;
} tuple_T61T2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OOT2OO;
#endif

#ifndef MYPYC_DECLARED_tuple_T1I
#define MYPYC_DECLARED_tuple_T1I
typedef struct tuple_T1I {
    CPyTagged f0;
} tuple_T1I;
#endif

#ifndef MYPYC_DECLARED_tuple_T4OOOO
#define MYPYC_DECLARED_tuple_T4OOOO
typedef struct tuple_T4OOOO {
    PyObject *f0;
    PyObject *f1;
    PyObject *f2;
    PyObject *f3;
} tuple_T4OOOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T2T2OOT2OO
#define MYPYC_DECLARED_tuple_T2T2OOT2OO
typedef struct tuple_T2T2OOT2OO {
    tuple_T2OO f0;
    tuple_T2OO f1;
} tuple_T2T2OOT2OO;
#endif

#ifndef MYPYC_DECLARED_tuple_T1T2OO
#define MYPYC_DECLARED_tuple_T1T2OO
typedef struct tuple_T1T2OO {
    tuple_T2OO f0;
} tuple_T1T2OO;
#endif

#ifndef MYPYC_DECLARED_tuple_T15FFFFFFFFFFFFFFF
#define MYPYC_DECLARED_tuple_T15FFFFFFFFFFFFFFF
typedef struct tuple_T15FFFFFFFFFFFFFFF {
    double f0;
    double f1;
    double f2;
    double f3;
    double f4;
    double f5;
    double f6;
    double f7;
    double f8;
    double f9;
    double f10;
    double f11;
    double f12;
    double f13;
    double f14;
} tuple_T15FFFFFFFFFFFFFFF;
#endif

#ifndef MYPYC_DECLARED_tuple_T7OOOOOOO
#define MYPYC_DECLARED_tuple_T7OOOOOOO
typedef struct tuple_T7OOOOOOO {
    PyObject *f0;
    PyObject *f1;
    PyObject *f2;
    PyObject *f3;
    PyObject *f4;
    PyObject *f5;
    PyObject *f6;
} tuple_T7OOOOOOO;
#endif

#ifndef MYPYC_DECLARED_tuple_T8OOOOOOOO
#define MYPYC_DECLARED_tuple_T8OOOOOOOO
typedef struct tuple_T8OOOOOOOO {
    PyObject *f0;
    PyObject *f1;
    PyObject *f2;
    PyObject *f3;
    PyObject *f4;
    PyObject *f5;
    PyObject *f6;
    PyObject *f7;
} tuple_T8OOOOOOOO;
#endif

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__store;
    PyObject *__flusher;
    PyObject *__pollers;
    PyObject *__clock;
    PyObject *__errors;
    PyObject *__sent;
    PyObject *__check;
    PyObject *__came;
    CPyTagged __bytes;
    PyObject *__turn_end;
} ternmq_broker___appending___AppendingObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *___mypyc_generator_attribute__stored;
} ternmq_broker___appending___append_Appending_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_env__;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__queue;
    PyObject *___mypyc_generator_frame_attribute__messages;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__done;
    PyObject *___mypyc_temp__3_ternmq_broker___appending___append_Appending_gen_0;
} ternmq_broker___appending___append_Appending_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_broker___appending___done_append_Appending_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _cursor;
    CPyTagged _generation;
    PyObject *_holes;
} ternmq_broker___delivery___claims___SnapshotObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _cursor;
    CPyTagged _generation;
    PyObject *_holes;
    PyObject *_finished;
} ternmq_broker___delivery___claims___DeltaObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _cursor;
    CPyTagged __generation;
    PyObject *__claims;
    PyObject *__deadlines;
    PyObject *__rebases;
    PyObject *__touched;
    CPyTagged __recorded_cursor;
    char __whole;
} ternmq_broker___delivery___claims___ClaimsObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_key;
    PyObject *_waiting;
    PyObject *_claimed;
    PyObject *_ended;
    PyObject *_attempt_id;
    PyObject *_blocked;
} ternmq_broker___delivery___ordered_consumption___LaneObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _cursor;
    CPyTagged __generation;
    PyObject *__claims;
    PyObject *__deadlines;
    PyObject *__rebases;
    PyObject *__touched;
    CPyTagged __recorded_cursor;
    char __whole;
    PyObject *__lanes;
    PyObject *__lane_of;
    PyObject *__heads;
    PyObject *__by_attempt_id;
    PyObject *__pending;
    PyObject *__fresh;
    PyObject *__moving;
    PyObject *__blocked;
    CPyTagged __floor;
} ternmq_broker___delivery___ordered_consumption___OrderedConsumptionObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_broker___delivery___ordered_consumption____unfinished_OrderedConsumption_gen_0;
    PyObject *___mypyc_temp__3_ternmq_broker___delivery___ordered_consumption____unfinished_OrderedConsumption_gen_1;
    PyObject *___mypyc_temp__3_ternmq_broker___delivery___ordered_consumption____unfinished_OrderedConsumption_gen_2;
} ternmq_broker___delivery___ordered_consumption____unfinished_OrderedConsumption_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _offset;
    CPyTagged _term;
} ternmq_broker___delivery___queue_access___GrantObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _until_ms;
} ternmq_broker___delivery___queue_access___WaitObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_owner;
    CPyTagged _acknowledged;
    PyObject *_delivered;
    CPyTagged __term;
    CPyTagged __seen_ms;
    CPyTagged __sightings;
    CPyTagged __sighted_ms;
    PyObject *__misdirected;
    PyObject *__moved_away;
    CPyTagged __hold_timeout_ms;
} ternmq_broker___delivery___queue_access___QueueAccessObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _cursor;
    CPyTagged __generation;
    PyObject *__claims;
    PyObject *__deadlines;
    PyObject *__rebases;
    PyObject *__touched;
    CPyTagged __recorded_cursor;
    char __whole;
    PyObject *__ready;
    PyObject *__ready_claims;
} ternmq_broker___delivery___queue_consumption___QueueConsumptionObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__store;
    PyObject *__mode;
    PyObject *__waiting;
    char __is_under_way;
    PyObject *__later;
    PyObject *__error;
    char __stopping;
    PyObject *__stopped;
    PyObject *__worker;
    PyObject *_failure;
    PyObject *_syncs;
    PyObject *__loop;
    CPyTagged __asked;
    CPyTagged __ask;
    CPyTagged __done;
    CPyTagged __tell;
} ternmq_broker___flusher___FlusherObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    CPyTagged ___mypyc_generator_frame_attribute__log_end;
    PyObject *___mypyc_generator_frame_attribute__then;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_broker___flusher___acknowledged_Flusher_gen_0;
} ternmq_broker___flusher___acknowledged_Flusher_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_then;
} ternmq_broker___flusher___when_readable_Flusher_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_broker___flusher_____mypyc_lambda__0_when_readable_Flusher_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
} ternmq_broker___flusher___durable_Flusher_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_env__;
    PyObject *___mypyc_generator_frame_attribute__self;
    CPyTagged ___mypyc_generator_frame_attribute__log_end;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_broker___flusher___durable_Flusher_gen_0;
} ternmq_broker___flusher___durable_Flusher_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_broker___flusher_____mypyc_lambda__1_durable_Flusher_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *___mypyc_generator_attribute__then;
    PyObject *___mypyc_generator_attribute__future;
} ternmq_broker___flusher____after_sync_Flusher_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_env__;
    PyObject *___mypyc_generator_frame_attribute__self;
    CPyTagged ___mypyc_generator_frame_attribute__log_end;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__done;
    PyObject *___mypyc_temp__3_ternmq_broker___flusher____after_sync_Flusher_gen_0;
} ternmq_broker___flusher____after_sync_Flusher_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_broker___flusher___done__after_sync_Flusher_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_broker___flusher___stop_Flusher_gen_0;
    PyObject *___mypyc_temp__3_ternmq_broker___flusher___stop_Flusher_gen_1;
} ternmq_broker___flusher___stop_Flusher_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__order;
    PyObject *__reader;
    PyObject *__broker;
    CPyTagged __now_ms;
    CPyTagged __deadline_ms;
    CPyTagged __bytes;
    char __no_other_fits;
    CPyTagged __scanned;
    PyObject *_deliveries;
    char _more;
} ternmq_broker___popping___PopObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__order;
    PyObject *__reader;
    PyObject *__broker;
    CPyTagged __now_ms;
    CPyTagged __deadline_ms;
    CPyTagged __bytes;
    char __no_other_fits;
    CPyTagged __scanned;
    PyObject *_deliveries;
    char _more;
} ternmq_broker___popping___UnorderedPopObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_head;
    PyObject *_file;
} ternmq_broker___store___index___log_index____BlockObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _log_from;
    CPyTagged _log_to;
    CPyTagged _base;
    PyObject *_folder;
    PyObject *_files;
    PyObject *_queues;
    tuple_T2OO _keys;
    PyObject *_written;
    PyObject *_counts;
} ternmq_broker___store___index___log_index___SpillJobObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__folder;
    PyObject *__files;
    PyObject *__blocks;
    CPyTagged __next_block;
    PyObject *__queues;
    PyObject *__dirty;
    tuple_T2OO __keys;
    PyObject *__detached;
    PyObject *__saving_floors;
    CPyTagged __floors_made;
    CPyTagged __floors_saved;
    CPyTagged _entries_in_memory;
    CPyTagged _covered;
    CPyTagged _promised;
    CPyTagged __lost;
    char __is_cut;
} ternmq_broker___store___index___log_index___LogIndexObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__topic;
    PyObject *___mypyc_generator_frame_attribute__key;
    int32_t ___mypyc_next_label__;
    CPyTagged ___mypyc_generator_frame_attribute__wanted;
    PyObject *___mypyc_generator_frame_attribute__new_hashes;
    PyObject *___mypyc_generator_frame_attribute__new_positions;
    CPyTagged ___mypyc_temp__3_ternmq_broker___store___index___log_index___candidates_LogIndex_gen_3;
    int64_t ___mypyc_temp__3_ternmq_broker___store___index___log_index___candidates_LogIndex_gen_4;
    PyObject *___mypyc_generator_frame_attribute__head;
    PyObject *___mypyc_generator_frame_attribute__hashes;
    PyObject *___mypyc_generator_frame_attribute__positions;
    CPyTagged ___mypyc_temp__3_ternmq_broker___store___index___log_index___candidates_LogIndex_gen_8;
    PyObject *___mypyc_temp__2_ternmq_broker___store___index___log_index___candidates_LogIndex_gen_0;
} ternmq_broker___store___index___log_index___candidates_LogIndex_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__job;
    int32_t ___mypyc_next_label__;
    CPyTagged ___mypyc_generator_frame_attribute__number;
    PyObject *___mypyc_temp__2_ternmq_broker___store___index___log_index___finish_spill_LogIndex_gen_0;
} ternmq_broker___store___index___log_index___finish_spill_LogIndex_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_self;
    PyObject *_floors;
    CPyTagged _number;
    PyObject *_save;
} ternmq_broker___store___index___log_index____save_floors_LogIndex_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_broker___store___index___log_index___save__save_floors_LogIndex_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _log_offset;
    CPyTagged _size;
    CPyTagged _tag_hash;
} ternmq_broker___store___index___queue_index___LocationObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_topic;
    PyObject *_topic_bytes;
    CPyTagged _key_prefix;
    CPyTagged _queue_id;
    CPyTagged _first;
    CPyTagged _origin;
    CPyTagged _tail_first;
    PyObject *__positions;
    PyObject *__sizes;
    PyObject *__tags;
    PyObject *__run_firsts;
    PyObject *__run_places;
} ternmq_broker___store___index___queue_index___QueueIndexObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _start;
    CPyTagged _size;
    PyObject *_line;
    char _mended;
    char _torn;
} ternmq_broker___store___journal_lines___FoundObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__data;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__tail;
    PyObject *___mypyc_generator_frame_attribute__texts;
    CPyTagged ___mypyc_generator_frame_attribute__position;
    PyObject *___mypyc_generator_frame_attribute__bad;
    int64_t ___mypyc_temp__3_ternmq_broker___store___journal_lines___read_gen_4;
    PyObject *___mypyc_generator_frame_attribute__text;
    PyObject *___mypyc_generator_frame_attribute__whole;
    PyObject *___mypyc_temp__3_ternmq_broker___store___journal_lines___read_gen_7;
    PyObject *___mypyc_temp__3_ternmq_broker___store___journal_lines___read_gen_8;
} ternmq_broker___store___journal_lines___read_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__text;
    CPyTagged ___mypyc_generator_frame_attribute__start;
    int32_t ___mypyc_next_label__;
    CPyTagged ___mypyc_generator_frame_attribute__at;
} ternmq_broker___store___journal_lines____salvaged_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    CPyTagged ___mypyc_generator_frame_attribute__difference;
    CPyTagged ___mypyc_generator_frame_attribute__size;
    int32_t ___mypyc_next_label__;
    CPyTagged ___mypyc_temp__3_ternmq_broker___store___journal_lines____single_bytes_gen_0;
    CPyTagged ___mypyc_temp__2_ternmq_broker___store___journal_lines____single_bytes_gen_0;
} ternmq_broker___store___journal_lines____single_bytes_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _base;
    PyObject *_file;
} ternmq_broker___store___log___commit_log____SegmentObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _log_offset;
    CPyTagged _size;
    PyObject *_record;
} ternmq_broker___store___log___commit_log___PlacedObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__folder;
    PyObject *_layouts;
    CPyTagged __segment_bytes;
    CPyTagged __reserve_bytes;
    PyObject *__segments;
    PyObject *__bases;
    CPyTagged __unsealed_from;
    char __names_unsynced;
    PyObject *__open_files;
    PyObject *__detached;
    CPyTagged _synced;
    CPyTagged _records;
} ternmq_broker___store___log___commit_log___CommitLogObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_broker___store___log___record___BadRecordObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_broker___store___log___record___NewerRecordObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_broker___store___log___record___BadContentObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _log_offset;
    CPyTagged _due_ms;
} ternmq_broker___store___log___record___OriginObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _log_offset;
    CPyTagged _size;
} ternmq_broker___store___log___record___ReferenceObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_kind;
    PyObject *_topic;
    CPyTagged _queue_id;
    CPyTagged _queue_offset;
    CPyTagged _stored_ms;
    CPyTagged _tag_hash;
    PyObject *_system;
    PyObject *_rest;
    PyObject *_origin;
    PyObject *_sender;
    PyObject *_reference;
    CPyTagged _rest_stored_ms;
} ternmq_broker___store___log___record___RecordObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _count;
    PyObject *_write;
} ternmq_broker___store___message_store___RemovalObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _first_offset;
    CPyTagged _log_end;
} ternmq_broker___store___message_store___AppendedBatchObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__root;
    PyObject *__set_aside;
    PyObject *__forgotten;
    CPyTagged __last_ms;
    PyObject *__durable_marks;
    PyObject *__log;
    CPyTagged _recovered;
    CPyTagged __set_aside_files;
    PyObject *__derived;
    PyObject *__index;
    PyObject *__recovery;
} ternmq_broker___store___message_store___MessageStoreObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_self;
    PyObject *_checkpoint;
} ternmq_broker___store___message_store___prepare_checkpoint_MessageStore_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_broker___store___message_store_____mypyc_lambda__0_prepare_checkpoint_MessageStore_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_self;
    PyObject *_finish_index;
    PyObject *_forgotten;
    PyObject *_finish;
} ternmq_broker___store___message_store___forget_topic_MessageStore_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_broker___store___message_store___finish_forget_topic_MessageStore_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__folder;
    PyObject *__lines;
    CPyTagged __live_bytes;
    PyObject *__fields;
    PyObject *__written_ms;
    CPyTagged __last_written_ms;
    PyObject *__vouched;
    PyObject *__cut;
    char __to_be_replaced;
    CPyTagged _skipped_lines;
    CPyTagged _mended_lines;
    CPyTagged _lost_below;
    PyObject *__file;
} ternmq_broker___store___progress_journal___ProgressJournalObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__coroutine;
    PyObject *__waits_for;
} ternmq_common___eager____BegunObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___eager___in_task_gen_0;
} ternmq_common___eager___in_task_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t bitmap;
    CPyTagged _message_bytes_max;
    CPyTagged _streams_max;
    CPyTagged _connection_in_bytes_max;
    CPyTagged _in_bytes_max;
    CPyTagged _connection_out_bytes_max;
    CPyTagged _out_bytes_max;
    CPyTagged _control_frames_per_s;
    CPyTagged _resets_per_s;
    double _header_timeout_s;
    double _body_timeout_s;
    double _output_timeout_s;
    double _idle_s;
    double _keepalive_s;
    double _keepalive_timeout_s;
} ternmq_common___grpc_http2___budgets___BudgetsObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _held;
    CPyTagged _unread;
} ternmq_common___grpc_http2___budgets___LedgerObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    double __per_s;
    double __burst;
    double __left;
    double __since;
} ternmq_common___grpc_http2___budgets___AllowanceObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t bitmap;
    PyObject *_budgets;
    PyObject *_ledger;
    double _now;
    double _heard;
    PyObject *_streams;
    PyObject *_limits;
    PyObject *_failure;
    char _greeted;
    char _blocked;
    char _behind;
    CPyTagged _held;
    CPyTagged _partial;
    PyObject *__frames;
    PyObject *__coming;
    PyObject *__events;
    PyObject *__outflow;
    PyObject *__ready;
    PyObject *__table_update;
    CPyTagged __last_stream;
    PyObject *__inflow;
    PyObject *__blocks;
    PyObject *__control;
    CPyTagged __unsent_answers;
    PyObject *__authority;
    CPyTagged __number;
    PyObject *__decoder;
    char _leaving;
} ternmq_common___grpc_http2___client_machine___ClientMachineObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_stream;
} ternmq_common___grpc_http2___client_machine___end_ClientMachine_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_common___grpc_http2___client_machine_____mypyc_lambda__0_end_ClientMachine_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_common___grpc_http2___frames___Http2ErrorObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged __frame_max;
    PyObject *__rest;
    CPyTagged __rest_needs;
    CPyTagged __kept;
    CPyTagged __data_left;
    CPyTagged __data_flags;
    CPyTagged __data_stream;
    PyObject *_data;
} ternmq_common___grpc_http2___frames___FrameReaderObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__data;
    int32_t ___mypyc_next_label__;
    CPyTagged ___mypyc_generator_frame_attribute__at;
    CPyTagged ___mypyc_generator_frame_attribute__end;
    PyObject *___mypyc_generator_frame_attribute__stop;
} ternmq_common___grpc_http2___frames___feed_FrameReader_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged __bytes_max;
    PyObject *__block;
    CPyTagged _stream;
    char _end_stream;
} ternmq_common___grpc_http2___header_blocks___HeaderBlocksObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_text;
    CPyTagged _bytes_min;
    PyObject *_values;
    PyObject *_same;
} ternmq_common___grpc_http2___header_reader____NameObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_name;
    PyObject *_value;
    PyObject *_known;
    CPyTagged _size;
} ternmq_common___grpc_http2___header_reader____FieldObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_entries;
    CPyTagged _held;
    CPyTagged _bytes_max;
} ternmq_common___grpc_http2___header_reader___HeaderTableObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__wanted;
    PyObject *__names;
    CPyTagged __values;
    PyObject *__by_byte;
} ternmq_common___grpc_http2___header_reader___HeaderReaderObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_common___grpc_http2___header_rules___MalformedHeadersObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged __left;
    CPyTagged __owed;
    CPyTagged __worth;
} ternmq_common___grpc_http2___inflow___InflowObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_common___grpc_http2___machine___FailureObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_common___grpc_http2___machine___OverBudgetObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t bitmap;
    PyObject *_budgets;
    PyObject *_ledger;
    double _now;
    double _heard;
    PyObject *_streams;
    PyObject *_limits;
    PyObject *_failure;
    char _greeted;
    char _blocked;
    char _behind;
    CPyTagged _held;
    CPyTagged _partial;
    PyObject *__frames;
    PyObject *__coming;
    PyObject *__events;
    PyObject *__outflow;
    PyObject *__ready;
    PyObject *__table_update;
    CPyTagged __last_stream;
    PyObject *__inflow;
    PyObject *__blocks;
    PyObject *__control;
    CPyTagged __unsent_answers;
} ternmq_common___grpc_http2___machine___MachineObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_common___grpc_http2___messages___StreamBrokenObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_common___grpc_http2___messages___MessageRefusedObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged __message_max;
    PyObject *__prefix;
    CPyTagged __length;
    PyObject *__parts;
    CPyTagged _partial;
    PyObject *_messages;
} ternmq_common___grpc_http2___messages___MessageReaderObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _number;
    CPyTagged _out_window;
    CPyTagged _out_bytes;
    char _in_line;
    PyObject *_tail;
    PyObject *__pieces;
} ternmq_common___grpc_http2___outflow___OutStreamObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _window;
    CPyTagged _first_window;
    CPyTagged _frame_max;
    CPyTagged _bytes;
    CPyTagged _sent;
    PyObject *__ledger;
    PyObject *__line;
    PyObject *__tails;
} ternmq_common___grpc_http2___outflow___OutflowObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t bitmap;
    PyObject *_budgets;
    PyObject *_ledger;
    double _now;
    double _heard;
    PyObject *_streams;
    PyObject *_limits;
    PyObject *_failure;
    char _greeted;
    char _blocked;
    char _behind;
    CPyTagged _held;
    CPyTagged _partial;
    PyObject *__frames;
    PyObject *__coming;
    PyObject *__events;
    PyObject *__outflow;
    PyObject *__ready;
    PyObject *__table_update;
    CPyTagged __last_stream;
    PyObject *__inflow;
    PyObject *__blocks;
    PyObject *__control;
    CPyTagged __unsent_answers;
    PyObject *__make;
    PyObject *__reader;
    PyObject *__table;
    CPyTagged __extra;
    PyObject *__preface;
    PyObject *__resets;
    PyObject *__lingering;
    PyObject *_unfinished;
    char _leaving;
    double _used;
} ternmq_common___grpc_http2___server_machine___ServerMachineObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_self;
    PyObject *_stream;
    PyObject *_trailers;
    PyObject *_tail;
} ternmq_common___grpc_http2___server_machine___end_ServerMachine_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_common___grpc_http2___server_machine___tail_end_ServerMachine_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__half;
    double __half_since;
    CPyTagged __sent;
    double __moved;
    PyObject *__asked;
    char __leaving;
} ternmq_common___grpc_http2___time_limits___TimeLimitsObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _number;
    CPyTagged _out_window;
    CPyTagged _out_bytes;
    char _in_line;
    PyObject *_tail;
    PyObject *__pieces;
    PyObject *_incoming;
    CPyTagged _window;
    CPyTagged _held;
    CPyTagged _early;
    CPyTagged _owed;
    double _began;
    char _begun;
    PyObject *_expected;
    PyObject *_status;
    char _talks;
    char _ended_here;
    char _ended_there;
    char _gone;
} ternmq_common___grpc_http2___wire_stream___WireStreamObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_machine;
    PyObject *_peer;
    PyObject *_loop;
    PyObject *__buffer;
    PyObject *__transport;
    PyObject *__turn_end;
    PyObject *__writers;
    PyObject *__blocked;
    char __paused;
    char __scheduled;
    PyObject *__ends;
    CPyTagged __ignored;
    char __cut;
    char _closed;
    CPyTagged _message_max;
    PyObject *_listener;
    PyObject *_deadlines;
    char _reads_nothing;
    PyObject *_note;
    PyObject *__server;
    CPyTagged __tasks;
    CPyTagged __sent;
    char __waits;
    PyObject *__room;
    PyObject *__limits;
} ternmq_common___grpc_stream___call_connection___CallConnectionObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_self;
} ternmq_common___grpc_stream___call_connection___answer_room_CallConnection_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_common___grpc_stream___call_connection_____mypyc_lambda__0_answer_room_CallConnection_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_machine;
    PyObject *_peer;
    PyObject *_loop;
    PyObject *__buffer;
    PyObject *__transport;
    PyObject *__turn_end;
    PyObject *__writers;
    PyObject *__blocked;
    char __paused;
    char __scheduled;
    PyObject *__ends;
    CPyTagged __ignored;
    char __cut;
    char _closed;
    PyObject *__authority;
    PyObject *__method;
    CPyTagged __message_max;
    PyObject *__stream;
    PyObject *_greeted;
} ternmq_common___grpc_stream___client___ClientConnectionObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *___mypyc_generator_attribute__connection;
} ternmq_common___grpc_stream___client___connect_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    uint32_t bitmap;
    PyObject *___mypyc_env__;
    PyObject *___mypyc_generator_frame_attribute__host_port;
    PyObject *___mypyc_generator_frame_attribute__method;
    double ___mypyc_generator_frame_attribute__timeout_s;
    CPyTagged ___mypyc_generator_frame_attribute__message_max;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__host;
    PyObject *___mypyc_generator_frame_attribute__port;
    PyObject *___mypyc_generator_frame_attribute__loop;
    char ___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_3;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_4;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_5;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_6;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_7;
    tuple_T3OOO ___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_8;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_9;
    tuple_T3OOO ___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_10;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___client___connect_gen_11;
    PyObject *___mypyc_temp__2_ternmq_common___grpc_stream___client___connect_gen_0;
    PyObject *___mypyc_temp__2_ternmq_common___grpc_stream___client___connect_gen_1;
} ternmq_common___grpc_stream___client___connect_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_common___grpc_stream___client_____mypyc_lambda__0_connect_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_machine;
    PyObject *_peer;
    PyObject *_loop;
    PyObject *__buffer;
    PyObject *__transport;
    PyObject *__turn_end;
    PyObject *__writers;
    PyObject *__blocked;
    char __paused;
    char __scheduled;
    PyObject *__ends;
    CPyTagged __ignored;
    char __cut;
    char _closed;
} ternmq_common___grpc_stream___connection___ConnectionObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_common___grpc_stream___deadlines___ExpiringObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__waiting;
} ternmq_common___grpc_stream___deadlines___DeadlinesObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
} ternmq_common___grpc_stream___served_call___CallRefusedObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _number;
    CPyTagged _out_window;
    CPyTagged _out_bytes;
    char _in_line;
    PyObject *_tail;
    PyObject *__pieces;
    PyObject *_incoming;
    CPyTagged _window;
    CPyTagged _held;
    CPyTagged _early;
    CPyTagged _owed;
    double _began;
    char _begun;
    PyObject *_expected;
    PyObject *_status;
    char _talks;
    char _ended_here;
    char _ended_there;
    char _gone;
    PyObject *__connection;
    PyObject *__messages;
    PyObject *__reader;
    PyObject *__writers;
    PyObject *__broken;
    PyObject *__shut;
    PyObject *__client;
    PyObject *_method;
    PyObject *_headers;
    PyObject *_deadline;
    double _moment;
    char _pends;
    PyObject *_task;
    PyObject *_trailers;
} ternmq_common___grpc_stream___served_call___ServedCallObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__messages;
    char ___mypyc_generator_frame_attribute__assured;
    PyObject *___mypyc_generator_frame_attribute__trailers;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___served_call___finish_ServedCall_gen_0;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___served_call___finish_ServedCall_gen_1;
} ternmq_common___grpc_stream___served_call___finish_ServedCall_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_env__;
    PyObject *___mypyc_generator_frame_attribute__ternmq_common___grpc_stream___stream___end_Stream_gen_self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___stream___end_Stream_gen_0;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___stream___end_Stream_gen_1;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__trailers;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___served_call___end_ServedCall_gen_0;
} ternmq_common___grpc_stream___served_call___end_ServedCall_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    CPyTagged _number;
    CPyTagged _out_window;
    CPyTagged _out_bytes;
    char _in_line;
    PyObject *_tail;
    PyObject *__pieces;
    PyObject *_incoming;
    CPyTagged _window;
    CPyTagged _held;
    CPyTagged _early;
    CPyTagged _owed;
    double _began;
    char _begun;
    PyObject *_expected;
    PyObject *_status;
    char _talks;
    char _ended_here;
    char _ended_there;
    char _gone;
    PyObject *__connection;
    PyObject *__messages;
    PyObject *__reader;
    PyObject *__writers;
    PyObject *__broken;
    PyObject *__shut;
} ternmq_common___grpc_stream___stream___StreamObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___stream___read_Stream_gen_0;
} ternmq_common___grpc_stream___stream___read_Stream_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___stream___read_all_Stream_gen_0;
} ternmq_common___grpc_stream___stream___read_all_Stream_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___stream___drained_Stream_gen_0;
} ternmq_common___grpc_stream___stream___drained_Stream_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
} ternmq_common___grpc_stream___stream___end_Stream_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_env__;
    PyObject *___mypyc_generator_frame_attribute__ternmq_common___grpc_stream___stream___end_Stream_gen_self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___stream___end_Stream_gen_0;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___stream___end_Stream_gen_1;
} ternmq_common___grpc_stream___stream___end_Stream_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___grpc_stream___stream____readable_Stream_gen_0;
} ternmq_common___grpc_stream___stream____readable_Stream_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *_counts;
    double _total_s;
    double _shortest_s;
    double _longest_s;
    CPyTagged _since_ns;
} ternmq_common___observability___durations___DurationsObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__unread;
    CPyTagged __bytes_max;
    CPyTagged __taken;
    PyObject *__waiting;
} ternmq_common___output_room___OutputRoomObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__room;
    char __held;
} ternmq_common___output_room___AnswerRoomObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__waiter;
    PyObject *___mypyc_temp__3_ternmq_common___output_room___take_OutputRoom_gen_1;
} ternmq_common___output_room___take_OutputRoom_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__within_s;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_0;
    char ___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_1;
    PyObject *___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_2;
    PyObject *___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_3;
    tuple_T3OOO ___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_4;
    PyObject *___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_5;
    tuple_T3OOO ___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_6;
    PyObject *___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_7;
    PyObject *___mypyc_temp__3_ternmq_common___output_room___enter_AnswerRoom_gen_8;
    PyObject *___mypyc_temp__2_ternmq_common___output_room___enter_AnswerRoom_gen_0;
    PyObject *___mypyc_temp__2_ternmq_common___output_room___enter_AnswerRoom_gen_1;
} ternmq_common___output_room___enter_AnswerRoom_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
} ternmq_common___receipt_handle___encode_ReceiptHandle_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
} ternmq_common___receipt_handle___decode_ReceiptHandle_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__loop;
    PyObject *__work;
    PyObject *__writes;
    char __comes;
} ternmq_common___turn_end___TurnEndObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_answer;
    char _None;
    PyObject *_stored;
    PyObject *_done;
} ternmq_proxy___activities___send_message___begin_send_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_proxy___activities___send_message___done_begin_send_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__request;
    PyObject *___mypyc_generator_frame_attribute__call;
    PyObject *___mypyc_generator_frame_attribute__services;
    int32_t ___mypyc_next_label__;
    CPyTagged ___mypyc_generator_frame_attribute__now;
    PyObject *___mypyc_generator_frame_attribute__messages;
    PyObject *___mypyc_generator_frame_attribute__name;
    PyObject *___mypyc_generator_frame_attribute__turns;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message___send_message_gen_4;
    char ___mypyc_generator_frame_attribute__takes_levels;
    PyObject *___mypyc_generator_frame_attribute__kinds;
    PyObject *___mypyc_generator_frame_attribute__message;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message___send_message_gen_8;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message___send_message_gen_9;
    PyObject *___mypyc_generator_frame_attribute__sending;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message___send_message_gen_11;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message___send_message_gen_12;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message___send_message_gen_13;
    PyObject *___mypyc_temp__2_ternmq_proxy___activities___send_message___send_message_gen_0;
    PyObject *___mypyc_temp__2_ternmq_proxy___activities___send_message___send_message_gen_1;
    PyObject *___mypyc_temp__2_ternmq_proxy___activities___send_message___send_message_gen_2;
    PyObject *___mypyc_temp__2_ternmq_proxy___activities___send_message___send_message_gen_3;
} ternmq_proxy___activities___send_message___send_message_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__sending;
    PyObject *___mypyc_generator_frame_attribute__stored;
    PyObject *___mypyc_generator_frame_attribute__turns;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__services;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message____appended_gen_1;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message____appended_gen_2;
    PyObject *___mypyc_generator_frame_attribute__appended;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___send_message____appended_gen_4;
} ternmq_proxy___activities___send_message____appended_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__request;
    PyObject *___mypyc_generator_frame_attribute__call;
    PyObject *___mypyc_generator_frame_attribute__services;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__client_id;
    PyObject *___mypyc_generator_frame_attribute__group;
    PyObject *___mypyc_generator_frame_attribute__topic;
    PyObject *___mypyc_generator_frame_attribute__entries;
    PyObject *___mypyc_generator_frame_attribute__turns;
    CPyTagged ___mypyc_generator_frame_attribute__start;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___settle_message___ack_message_gen_6;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___settle_message___ack_message_gen_7;
    PyObject *___mypyc_temp__2_ternmq_proxy___activities___settle_message___ack_message_gen_0;
} ternmq_proxy___activities___settle_message___ack_message_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__entries;
    PyObject *___mypyc_generator_frame_attribute__client_id;
    PyObject *___mypyc_generator_frame_attribute__group;
    PyObject *___mypyc_generator_frame_attribute__topic;
    PyObject *___mypyc_generator_frame_attribute__services;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__decoded;
    PyObject *___mypyc_generator_frame_attribute__handles;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___settle_message____settled_gen_2;
} ternmq_proxy___activities___settle_message____settled_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__request;
    PyObject *___mypyc_generator_frame_attribute__call;
    PyObject *___mypyc_generator_frame_attribute__services;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__client_id;
    PyObject *___mypyc_generator_frame_attribute__group;
    PyObject *___mypyc_generator_frame_attribute__topic;
    PyObject *___mypyc_generator_frame_attribute__handle;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___settle_message___change_invisible_duration_gen_4;
} ternmq_proxy___activities___settle_message___change_invisible_duration_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__request;
    PyObject *___mypyc_generator_frame_attribute__call;
    PyObject *___mypyc_generator_frame_attribute__services;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__client_id;
    PyObject *___mypyc_generator_frame_attribute__group;
    PyObject *___mypyc_generator_frame_attribute__topic;
    PyObject *___mypyc_generator_frame_attribute__handle;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___settle_message___forward_message_to_dead_letter_queue_gen_4;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___settle_message___forward_message_to_dead_letter_queue_gen_5;
} ternmq_proxy___activities___settle_message___forward_message_to_dead_letter_queue_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__message;
    PyObject *___mypyc_generator_frame_attribute__inflation;
    PyObject *___mypyc_generator_frame_attribute__limits;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_proxy___activities___stored_form___inflate_gen_0;
} ternmq_proxy___activities___stored_form___inflate_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__data;
    PyObject *__unseen;
    CPyTagged __unseen_bytes;
    CPyTagged _count;
} ternmq_proxy___fronts___field_count____CountingObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__data;
    PyObject *___mypyc_generator_frame_attribute__kind;
    CPyTagged ___mypyc_generator_frame_attribute__fields_max;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__counting;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___field_count___has_more_fields_gen_1;
} ternmq_proxy___fronts___field_count___has_more_fields_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__sockets;
    PyObject *__listeners;
    PyObject *__figures;
    PyObject *__observability;
    PyObject *__methods;
    PyObject *__server;
    PyObject *__health;
    char __started;
    PyObject *__services;
} ternmq_proxy___fronts___grpc_front___GrpcFrontObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t bitmap;
    PyObject *__tell;
    PyObject *__name;
    PyObject *_code;
    double __began;
} ternmq_proxy___fronts___grpc_front____MeasuredObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__services;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___start_GrpcFront_gen_0;
    PyObject *___mypyc_temp__2_ternmq_proxy___fronts___grpc_front___start_GrpcFront_gen_0;
} ternmq_proxy___fronts___grpc_front___start_GrpcFront_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    uint32_t bitmap;
    PyObject *___mypyc_generator_frame_attribute__self;
    double ___mypyc_generator_frame_attribute__grace_s;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___stop_GrpcFront_gen_0;
} ternmq_proxy___fronts___grpc_front___stop_GrpcFront_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_self;
    PyObject *_name;
    PyObject *_call;
    PyObject *_begin;
    PyObject *_figures;
    PyObject *_parsed;
    PyObject *_services;
    PyObject *_size;
    PyObject *_at_once;
} ternmq_proxy___fronts___grpc_front____begun_GrpcFront_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t bitmap;
    PyObject *___mypyc_self__;
    PyObject *___mypyc_env__;
    PyObject *_served;
    PyObject *_data;
    double _began;
    PyObject *_answer;
} ternmq_proxy___fronts___grpc_front___at_once__begun_GrpcFront_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_proxy___fronts___grpc_front___at_once__begun_GrpcFront_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_proxy___fronts___grpc_front___answer__begun_GrpcFront_at_once_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_self;
    PyObject *_name;
    PyObject *_call;
    PyObject *_spans;
    PyObject *_figures;
    PyObject *_size;
    PyObject *___mypyc_generator_attribute__answer;
} ternmq_proxy___fronts___grpc_front____unary_GrpcFront_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *___mypyc_env__;
} ternmq_proxy___fronts___grpc_front___answer__unary_GrpcFront_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
    PyObject *___cpyfunction__;
} ternmq_proxy___fronts___grpc_front___answer__unary_GrpcFront_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_env__;
    PyObject *___mypyc_generator_frame_attribute__served;
    int32_t ___mypyc_next_label__;
    char ___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_186_0;
    PyObject *___mypyc_generator_frame_attribute__measured;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_186_2;
    PyObject *___mypyc_generator_frame_attribute__response;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_186_4;
    char ___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_186_5;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_186_6;
    PyObject *___mypyc_generator_frame_attribute__answered;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_186_8;
    PyObject *___mypyc_temp__2_ternmq_proxy___fronts___grpc_front___answer_gen___3_186_0;
    PyObject *___mypyc_temp__2_ternmq_proxy___fronts___grpc_front___answer_gen___3_186_1;
} ternmq_proxy___fronts___grpc_front___answer_gen___3_186Object;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__name;
    PyObject *___mypyc_generator_frame_attribute__call;
    PyObject *___mypyc_generator_frame_attribute__request;
    PyObject *___mypyc_generator_frame_attribute__made;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____response_GrpcFront_gen_0;
} ternmq_proxy___fronts___grpc_front____response_GrpcFront_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_self;
    PyObject *_name;
    PyObject *_call;
    PyObject *_spans;
    PyObject *_figures;
    PyObject *_size;
    PyObject *___mypyc_generator_attribute__answer;
} ternmq_proxy___fronts___grpc_front____streamed_GrpcFront_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *___mypyc_env__;
} ternmq_proxy___fronts___grpc_front___answer__streamed_GrpcFront_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
    PyObject *___cpyfunction__;
} ternmq_proxy___fronts___grpc_front___answer__streamed_GrpcFront_objObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_env__;
    PyObject *___mypyc_generator_frame_attribute__served;
    int32_t ___mypyc_next_label__;
    CPyTagged ___mypyc_generator_frame_attribute__began_ns;
    char ___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_1;
    PyObject *___mypyc_generator_frame_attribute__measured;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_3;
    PyObject *___mypyc_generator_frame_attribute__request;
    tuple_T3OOO ___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_5;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_6;
    PyObject *___mypyc_generator_frame_attribute__made;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_8;
    PyObject *___mypyc_generator_frame_attribute__answered;
    char ___mypyc_generator_frame_attribute__whole;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_11;
    char ___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_12;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_13;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_14;
    PyObject *___mypyc_temp__2_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_0;
    PyObject *___mypyc_temp__2_ternmq_proxy___fronts___grpc_front___answer_gen___3_217_1;
} ternmq_proxy___fronts___grpc_front___answer_gen___3_217Object;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__call;
    PyObject *___mypyc_generator_frame_attribute__request;
    PyObject *___mypyc_generator_frame_attribute__made;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____answered_GrpcFront_gen_0;
} ternmq_proxy___fronts___grpc_front____answered_GrpcFront_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__kind;
    PyObject *___mypyc_generator_frame_attribute__size;
    PyObject *___mypyc_generator_frame_attribute__served;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____request_GrpcFront_gen_0;
    PyObject *___mypyc_generator_frame_attribute__data;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____request_GrpcFront_gen_2;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____request_GrpcFront_gen_3;
} ternmq_proxy___fronts___grpc_front____request_GrpcFront_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__served;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__call;
    PyObject *___mypyc_generator_frame_attribute__stream;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____converse_GrpcFront_gen_2;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____converse_GrpcFront_gen_3;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____converse_GrpcFront_gen_4;
} ternmq_proxy___fronts___grpc_front____converse_GrpcFront_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__self;
    PyObject *___mypyc_generator_frame_attribute__data;
    PyObject *___mypyc_generator_frame_attribute__call;
    PyObject *___mypyc_generator_frame_attribute__stream;
    PyObject *___mypyc_generator_frame_attribute__served;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____heard_GrpcFront_gen_0;
    tuple_T3OOO ___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____heard_GrpcFront_gen_1;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____heard_GrpcFront_gen_2;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____heard_GrpcFront_gen_3;
} ternmq_proxy___fronts___grpc_front____heard_GrpcFront_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__error;
    PyObject *___mypyc_generator_frame_attribute__served;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___grpc_front____end_conversation_gen_0;
} ternmq_proxy___fronts___grpc_front____end_conversation_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__kind;
    PyObject *___mypyc_generator_frame_attribute__data;
    int32_t ___mypyc_next_label__;
    PyObject *___mypyc_generator_frame_attribute__request;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___parsing___parsed_in_pieces_gen_1;
    PyObject *___mypyc_generator_frame_attribute__turns;
    PyObject *___mypyc_temp__3_ternmq_proxy___fronts___parsing___parsed_in_pieces_gen_3;
    PyObject *___mypyc_temp__2_ternmq_proxy___fronts___parsing___parsed_in_pieces_gen_0;
} ternmq_proxy___fronts___parsing___parsed_in_pieces_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    uint32_t mypyc_running;
    PyObject *___mypyc_generator_frame_attribute__data;
    int32_t ___mypyc_next_label__;
    CPyTagged ___mypyc_generator_frame_attribute__at;
    PyObject *___mypyc_generator_frame_attribute__end;
} ternmq_proxy___fronts___parsing____pieces_genObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *__turns;
} ternmq_proxy___processors___placement___PlacementObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    PyObject *___mypyc_self__;
    PyObject *_message_group;
} ternmq_proxy___processors___placement___queue_of_group_envObject;

typedef struct {
    PyObject_HEAD
    CPyVTableItem *vtable;
    vectorcallfunc vectorcall;
    PyObject *___mypyc_env__;
} ternmq_proxy___processors___placement_____mypyc_lambda__0_queue_of_group_objObject;

#endif
