//! Word lists that tell what a sitting was about, how a person felt, and what they mean to do or
//! have done. Folded as words are compared; several languages side by side.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::phrase::Phrases;

/// The mood of a sitting in which none was voiced.
pub(crate) const NEUTRAL: &str = "neutral";
/// The mood of "less anxious".
pub(crate) const RELIEVED: &str = "relieved";
pub(crate) const SOFTENED: &[&str] = &["less", "weniger", "moins", "menos", "meno", "minder"];

/// Words behind which a thing is named, folded.
pub(crate) const ARTICLES: &[&str] = &[
    "a", "an", "the", "my", "your", "his", "her", "its", "our", "their", "this", "these", "those", "some",
    "every", "of", "der", "die", "das", "den", "dem", "des", "ein", "eine", "einen", "einem", "einer",
    "mein", "meine", "meinen", "meinem", "meiner", "unser", "unsere", "le", "la", "les", "un", "une", "des",
    "mon", "ma", "mes", "notre", "nos", "el", "los", "las", "una", "mi", "mis", "nuestro", "nuestra", "il",
    "lo", "gli", "mio", "mia", "miei", "o", "os", "as", "um", "uma", "meu", "minha", "het", "een", "mijn",
    "onze",
];

fn by_word(rows: &[(&'static str, &'static str)]) -> HashMap<&'static str, &'static str> {
    rows.iter().flat_map(|(name, words)| words.split_whitespace().map(move |word| (word, *name))).collect()
}

pub(crate) static THEMES: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    by_word(&[
        (
            "work",
            "work job boss office colleague colleagues deadline career manager shift arbeit job chef kollegen \
                  buro travail patron bureau collegue collegues trabajo jefe oficina lavoro capo ufficio trabalho werk baas",
        ),
        (
            "sleep",
            "sleep sleeping insomnia awake nightmare nightmares schlaf schlafen schlaflos albtraum sommeil dormir \
                   insomnie cauchemar sueno insomnio pesadilla sonno dormire slapen slaap",
        ),
        (
            "family",
            "family mother father mom mum dad parents sister brother daughter children kids familie mutter vater \
                    eltern schwester bruder tochter kinder famille mere pere soeur frere enfants parents familia madre \
                    padre hermana hermano hijos famiglia sorella fratello figli",
        ),
        (
            "relationship",
            "partner wife husband girlfriend boyfriend marriage divorce breakup relationship dating beziehung \
                          ehe trennung scheidung freundin mari femme couple rupture divorce pareja novia novio matrimonio \
                          ruptura relazione fidanzata fidanzato relatie",
        ),
        (
            "friendship",
            "friend friends friendship freund freunde freundschaft ami amis amie amitie amigo amigos amiga \
                        amistad amico amici vriend vrienden",
        ),
        (
            "health",
            "health doctor illness sick pain hospital medication therapy gesundheit arzt krank schmerzen \
                    krankenhaus sante medecin malade douleur hopital salud medico enferma enfermo dolor salute malato",
        ),
        (
            "money",
            "money rent debt debts salary bills budget geld miete schulden gehalt argent loyer dettes salaire dinero \
                   alquiler deudas sueldo soldi affitto debiti dinheiro huur schulden",
        ),
        (
            "anxiety",
            "anxiety anxious panic worry worried worries fear scared angst panik sorgen anxiete panique peur \
                     inquiet inquiete ansiedad panico miedo ansia paura ansiedade medo",
        ),
        (
            "grief",
            "grief died death funeral loss mourning trauer gestorben tod beerdigung verlust deuil mort enterrement \
                   duelo muerte funeral perdida lutto morte",
        ),
        (
            "loneliness",
            "lonely alone loneliness isolated einsam einsamkeit allein seul seule solitude solo sola soledad \
                        solitudine eenzaam",
        ),
        (
            "study",
            "school university exam exams study studies homework class schule uni universitat prufung studium ecole \
                   universite examen etudes escuela universidad examenes scuola esame",
        ),
        (
            "home",
            "home house flat apartment moving move landlady wohnung haus umzug maison appartement demenagement casa \
                  piso mudanza trasloco verhuizing",
        ),
        (
            "food",
            "food eating diet cooking meal essen kochen manger cuisine repas comida cocinar cibo cucinare eten",
        ),
        (
            "exercise",
            "running gym exercise yoga swimming training sport laufen schwimmen courir natation correr nadar \
                      correre nuotare",
        ),
    ])
});

pub(crate) static MOODS: LazyLock<HashMap<&str, &str>> = LazyLock::new(|| {
    by_word(&[
        (
            "anxious",
            "anxious nervous worried scared afraid panicky uneasy angstlich nervos besorgt anxieux anxieuse inquiet \
                     inquiete ansioso ansiosa nervioso nerviosa preocupado preocupada preoccupato preoccupata",
        ),
        (
            "sad",
            "sad down depressed miserable unhappy crying traurig niedergeschlagen deprimiert triste deprime deprimee \
                 deprimido deprimida triste infelice verdrietig",
        ),
        (
            "angry",
            "angry furious mad annoyed frustrated wutend sauer genervt frustriert colere furieux furieuse enfadado \
                   enfadada enojado enojada furioso furiosa arrabbiato arrabbiata boos",
        ),
        (
            "tired",
            "tired exhausted drained sleepy mude erschopft kaputt fatigue fatiguee epuise epuisee cansado cansada \
                   agotado agotada stanco stanca esausto moe",
        ),
        (
            "stressed",
            "stressed overwhelmed tense pressured gestresst uberfordert angespannt stresse stressee deborde \
                      debordee estresado estresada agobiado agobiada stressato stressata gestrest",
        ),
        ("lonely", "lonely isolated einsam seul seule solo sola eenzaam"),
        (
            "hopeful",
            "hopeful optimistic encouraged hoffnungsvoll zuversichtlich optimiste esperanzado esperanzada fiducioso",
        ),
        (
            "calm",
            "calm calmer relaxed peaceful relieved ruhig ruhiger entspannt erleichtert calme detendu soulage soulagee \
                  tranquilo tranquila relajado relajada aliviado tranquillo tranquilla rilassato rustig",
        ),
        (
            "happy",
            "happy glad joyful excited great wonderful glucklich froh begeistert heureux heureuse content contente \
                   feliz contento contenta felice blij",
        ),
        (
            "grateful",
            "grateful thankful dankbar reconnaissant reconnaissante agradecido agradecida grato grata",
        ),
    ])
});

/// What a person means to do.
pub(crate) static TO_DO: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "i need to", "i have to", "i must", "i should", "i will", "i'll", "i'm going to", "i am going to",
        "i still have to", "i plan to", "ich muss", "ich sollte", "ich werde", "ich habe vor", "muss ich",
        "je dois", "il faut que je", "je vais", "je devrais", "tengo que", "debo", "debería", "voy a",
        "devo", "dovrei", "preciso", "ik moet", "ik ga",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});

/// That something is settled.
pub(crate) static RESOLVED: LazyLock<Phrases<()>> = LazyLock::new(|| {
    let texts = [
        "is done", "i'm done with", "that's done", "that's settled", "is settled", "is solved", "i solved",
        "it worked out", "i figured it out", "figured out", "is sorted", "sorted it out", "is resolved",
        "we made up", "i finished", "i finally", "ist erledigt", "habe ich erledigt", "hat geklappt",
        "habe es geschafft", "ist gelöst", "ist geklärt", "c'est réglé", "c'est fait", "j'ai réussi",
        "j'ai fini", "ya está", "está resuelto", "lo logré", "terminé", "è risolto", "ho finito",
        "ce l'ho fatta", "is geregeld", "is gelukt",
    ];
    Phrases::new(texts.map(|text| (text, ())))
});
